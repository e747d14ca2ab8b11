#pragma once
// Past rows of context features with their labels, for the counter tower's replay and the cross
// tower's quantiles. Nothing of users or items: history and tables are never replayed.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"

namespace sirenfeed::trainer {

/// A reservoir in bounded memory. Until it is full every row enters; then the n-th row enters with
/// probability max(capacity/n, admit_min) in the place of a random one. With 0 it is a uniform
/// sample of everything ever seen; the floor lets a stream that never ends forget its first year:
/// the mean age of a row is at most capacity/admit_min rows. Threads: one.
class ReplayBuffer {
 public:
  struct Shape {
    std::size_t contexts = 0;  // c of a row, before standardisation
    std::size_t tasks = 0;     // label and weight of each
  };
  /// Holds as many rows as fit `bytes_max`, at least one; the index that finds them again takes
  /// some 40 bytes a row beside it. Equal seeds and rows give equal bytes.
  ReplayBuffer(const Shape& shape, std::size_t bytes_max, double admit_min, std::uint64_t seed);

  void add(std::span<const float> c, std::span<const float> label, std::span<const float> weight);

  /// A late label: the row of these features, if it is held and does not have it yet, gets it. Of
  /// several such rows the one that lies first.
  void relabel(std::span<const float> c, std::size_t task);

  [[nodiscard]] std::size_t rows() const;
  [[nodiscard]] std::size_t rows_max() const { return rows_max_; }
  [[nodiscard]] std::uint64_t rows_seen() const { return seen_; }
  [[nodiscard]] std::span<const float> c(std::size_t row) const;
  [[nodiscard]] std::span<const float> label(std::size_t row) const;
  [[nodiscard]] std::span<const float> weight(std::size_t row) const;

  /// Random numbers of the replay. A draw that is to be undone puts the state back.
  struct Random {
    std::uint64_t state = 0;
    [[nodiscard]] double uniform();  // in [0, 1)
    /// Uniform in [0, n), 0 < n < 2^53.
    std::size_t below(std::size_t n);
  };
  Random random;

  void append_to(std::string& bytes) const;
  [[nodiscard]] base::Result<void> restore(std::string_view& bytes);

 private:
  void index(std::size_t row);
  void forget(std::size_t row);
  [[nodiscard]] std::size_t stride() const { return shape_.contexts + 2 * shape_.tasks; }

  Shape shape_;
  std::size_t rows_max_;
  double admit_min_;
  Random admission_;
  std::uint64_t seen_ = 0;
  std::vector<float> data_;                                            // [rows, contexts + 2 tasks]
  std::unordered_multimap<std::uint64_t, std::uint32_t> by_features_;  // hash of c → row
};

}  // namespace sirenfeed::trainer
