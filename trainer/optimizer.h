#pragma once
// How gradients change parameters: Adam for dense tensors and action rows, row-wise Adagrad with
// decay for tables. Threads: one.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "model/model.h"
#include "model/paged_array.h"
#include "model/parameters.h"
#include "trainer/config.h"

namespace sirenfeed::trainer {

/// The share of dense_rate at a step, 1 the first: linear warm-up, then the schedule, which never
/// goes below the floor.
[[nodiscard]] double rate_share(const OptimizerConfig& config, std::uint64_t step);

/// Adam with linear warm-up, a schedule and global-norm clipping over every trained tensor of the
/// layout.
class Adam {
 public:
  Adam(const model::ParameterLayout& layout, const OptimizerConfig& config);

  /// √Σ g² over the trained tensors, in fixed order; not finite when any element is not.
  [[nodiscard]] double norm(std::span<const float> gradient) const;
  /// One step. `norm` is norm(gradient), finite.
  void step(std::span<float> parameters, std::span<const float> gradient, double norm);
  [[nodiscard]] std::uint64_t steps() const { return steps_; }

  void append_to(std::string& bytes) const;
  [[nodiscard]] base::Result<void> restore(std::string_view& bytes);

 private:
  struct Range {
    std::size_t begin = 0;
    std::size_t end = 0;
  };
  std::vector<Range> trained_;  // adjacent tensors joined
  OptimizerConfig config_;
  std::uint64_t steps_ = 0;
  std::vector<float> mean_;  // like the flat buffer
  std::vector<float> square_;
};

/// G ← γG + mean_k g², row −= η g/(√G + ε), γ = 0.5^(Δ event time/half-life). Holds G and the time
/// of the last step for each row of one table, by row number. Copies share pages, as tables do.
class RowAdagrad {
 public:
  explicit RowAdagrad(const OptimizerConfig& config);

  /// Takes up rows that the table has already: G = 0, last stepped at `now_ms`.
  void cover(const model::EmbeddingTable& table, base::UnixMs now_ms);
  /// One step of row `index` with the batch's whole gradient of it. `now_ms`: the batch's newest
  /// event time; one before the row's last step does not decay.
  void step(model::EmbeddingTable& table, std::uint32_t index, std::span<const float> gradient,
            base::UnixMs now_ms);
  /// Erases the rows that were last seen before `before_ms`; returns how many.
  std::size_t expire(model::EmbeddingTable& table, base::UnixMs before_ms);
  /// Erases the `count` rows that were unseen longest (of equal times, the smallest keys first),
  /// but none of `kept`; returns how many.
  std::size_t evict(model::EmbeddingTable& table, std::size_t count,
                    std::span<const model::Key> kept);

  /// Keys, rows, G and times in row order.
  void append_to(std::string& bytes, const model::EmbeddingTable& table) const;
  /// `table` must be empty; its name and width are checked.
  [[nodiscard]] base::Result<void> restore(std::string_view& bytes, model::EmbeddingTable& table);

 private:
  struct Row {
    base::UnixMs last_ms;  // of the last step
    float square;          // G
  };
  static constexpr unsigned kPageBits = 6;  // 1 KiB

  void add(float square, base::UnixMs last_ms);
  void erase(model::EmbeddingTable& table, std::uint32_t index);

  double rate_;
  double epsilon_;
  double half_life_ms_;
  model::PagedArray<Row, kPageBits> rows_;
};

}  // namespace sirenfeed::trainer
