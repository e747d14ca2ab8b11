#pragma once
// The training loss of MODEL.md: per task BCE over exposed items, plus α times the mean of
// softplus(−(z⁺ − z⁻)) over (clicked, not clicked) pairs within an impression. Means run over the
// whole batch: count_loss_terms over every slate first, then add_loss chunk by chunk.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "model/slate.h"

namespace sirenfeed::model {

struct LossConfig {
  std::vector<double> task_weights = {1.0, 0.5, 0.2};
  double pairwise_weight = 0.1;   // α
  std::size_t pairwise_task = 0;  // index of click
  double gate_weight = 1e-4;      // of the open gates of siren_discovery (model/discovery.h), nats

  [[nodiscard]] base::Result<void> validate(std::size_t n_tasks) const;
};

/// Denominators of the batch's means.
struct LossTerms {
  std::vector<std::uint64_t> cells;  // [K] cells with weight ≠ 0
  std::uint64_t pairs = 0;
};
void count_loss_terms(const SlateLabels& labels, const LossConfig& config, LossTerms& terms);

/// Adds one slate's share of the batch loss and writes its d_z. z, d_z [C, K] before calibration; a
/// masked cell (weight 0) has no part in either term. A correction's cell (SlateLabels::correction)
/// contributes −z·weight in place of BCE, and no pair. Returns the loss share in nats.
///
/// With SlateLabels::fake_negatives every cell came as a negative first and, where it was positive,
/// once more as a correction. With p = σ(z), not differentiated, the negative weighs (1 − p)(1 + p)
/// and the positive 1 + p (Ktena et al. 2019, equation 9): for a true rate q the expected gradient
/// is (1 − p²)(p − q), zero where the model is right. No pair: the positives are not there yet.
double add_loss(std::span<const float> z, const SlateLabels& labels, const LossConfig& config,
                const LossTerms& batch_terms, std::span<float> d_z);

/// d loss / dz of one unmasked cell, before weights and means.
[[nodiscard]] double cell_gradient(double z, double label, const SlateLabels& labels);

/// log(1 + e^x) without overflow.
[[nodiscard]] double softplus(double x);
/// −label·ln σ(z) − (1 − label)·ln(1 − σ(z)) in nats.
[[nodiscard]] double binary_cross_entropy(double z, double label);
[[nodiscard]] double sigmoid(double x);

}  // namespace sirenfeed::model
