#pragma once
// Learns the isotonic layer: a sliding histogram of scored logits, fitted anew every few batches by
// pool-adjacent-violators (Ayer, Brunk, Ewing, Reid and Silverman, 1955).
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/model.h"
#include "model/slate.h"
#include "trainer/config.h"

namespace sirenfeed::trainer {

/// For each task and knot x_j: weight N_j and positives Y_j of the cells near it, each cell shared
/// between its two neighbouring knots in proportion; both fade with isotonic_half_life_cells.
/// The fit pools p_j = (Y_j + a σ(x_j))/(N_j + a), a = 4, weighted by N_j + a, until it ascends;
/// the knot's y is .95 logit p_j + .05 x_j, so that the layer ascends strictly and no order is
/// lost. Memory: 16 bytes a knot and task. Threads: one.
class IsotonicCalibrator {
 public:
  IsotonicCalibrator(const model::Calibration& start, const OptimizerConfig& config);

  /// z [C, K]: mean logits of the towers as the model before the step scored them.
  void add(const model::Calibration& calibration, std::span<const float> z,
           const model::SlateLabels& labels);
  /// Ends the batch; every isotonic_batches-th one fits the knots.
  void step(model::Calibration& calibration);

  void append_to(std::string& bytes) const;
  [[nodiscard]] base::Result<void> restore(std::string_view& bytes);

 private:
  void fit(model::Calibration& calibration, std::size_t task);

  std::size_t tasks_;
  std::size_t knots_;
  std::uint32_t fit_batches_;
  double half_life_cells_;
  std::uint64_t batches_ = 0;
  std::vector<double> batch_cells_;  // a task; 0 between batches
  std::vector<double> weight_;       // N [K, knots]
  std::vector<double> positive_;     // Y [K, knots]
};

/// In place: the least-squares ascending fit of `value` under `weight` > 0.
void pool_adjacent_violators(std::span<double> value, std::span<const double> weight);

}  // namespace sirenfeed::trainer
