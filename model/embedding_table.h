#pragma once
// One table of learned rows, key -> row of fixed width. A row that is not in the table has its
// start value. Threads: const methods from any thread while nobody writes; one writer.
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "model/slate.h"
#include "model/starts.h"

namespace sirenfeed::model {

inline constexpr std::uint32_t kNoRow = std::numeric_limits<std::uint32_t>::max();

template <class T>
class BasicEmbeddingTable {
 public:
  BasicEmbeddingTable() = default;
  /// `name` is the tensor prefix, e.g. "embedding.item".
  BasicEmbeddingTable(std::string name, int width, Start start, std::uint64_t seed);

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] std::size_t width() const { return width_; }
  [[nodiscard]] std::size_t size() const { return keys_.size(); }

  /// Row number of `key`, or kNoRow. Row numbers are dense, 0 … size() − 1, in order of creation
  /// but for what erase() moves.
  [[nodiscard]] std::uint32_t index_of(Key key) const;
  [[nodiscard]] Key key_at(std::uint32_t index) const { return keys_[index]; }
  [[nodiscard]] std::span<const T> row_at(std::uint32_t index) const {
    return std::span(rows_).subspan(index * width_, width_);
  }
  [[nodiscard]] std::span<T> row_at(std::uint32_t index) {
    return std::span(rows_).subspan(index * width_, width_);
  }
  /// The row's values, or the start where it is absent. out: [width].
  void copy_row(Key key, std::span<T> out) const;
  /// The row number of `key`; made with its start value where it is absent.
  std::uint32_t find_or_create(Key key);
  /// Removes the row. The last row takes its number; returns the last row's old number (equal to
  /// the erased one when it was last itself), or kNoRow when the key is absent.
  std::uint32_t erase(Key key);
  void reserve(std::size_t rows);
  /// Row numbers sorted by the keys as int64, the file's order.
  [[nodiscard]] std::vector<std::uint32_t> sorted_indices() const;

 private:
  void rehash(std::size_t slots);
  [[nodiscard]] std::size_t slot_of(Key key) const;

  std::string name_;
  std::size_t width_ = 0;
  Start start_;
  std::uint64_t seed_ = 0;
  std::vector<Key> keys_;
  std::vector<T> rows_;
  std::vector<std::uint32_t> slots_;  // open addressing, power of two, kNoRow = free
};

extern template class BasicEmbeddingTable<float>;
extern template class BasicEmbeddingTable<double>;

}  // namespace sirenfeed::model
