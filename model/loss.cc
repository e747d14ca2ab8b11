#include "model/loss.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace sirenfeed::model {
namespace {

using base::ErrorCode;
using base::fail;

/// Whether candidate c takes part in pairs, and on which side.
enum class PairSide { kNone, kClicked, kNotClicked };

PairSide pair_side(const SlateLabels& labels, const LossConfig& config, std::size_t n_tasks,
                   std::size_t candidate) {
  if (labels.correction || labels.fake_negatives || config.pairwise_weight == 0)
    return PairSide::kNone;
  const std::size_t cell = candidate * n_tasks + config.pairwise_task;
  if (labels.weight[cell] == 0.0F) return PairSide::kNone;
  return labels.label[cell] > 0.5F ? PairSide::kClicked : PairSide::kNotClicked;
}

/// α · softplus(−(z⁺ − z⁻)) over the slate's pairs, each with `share` of the batch.
double add_pairs(std::span<const float> z, const SlateLabels& labels, const LossConfig& config,
                 double share, std::span<float> d_z) {
  const std::size_t n_tasks = config.task_weights.size();
  const std::size_t candidates = z.size() / n_tasks;
  double loss = 0;
  for (std::size_t i = 0; i < candidates; ++i) {
    if (pair_side(labels, config, n_tasks, i) != PairSide::kClicked) continue;
    for (std::size_t j = 0; j < candidates; ++j) {
      if (pair_side(labels, config, n_tasks, j) != PairSide::kNotClicked) continue;
      const std::size_t winner = i * n_tasks + config.pairwise_task;
      const std::size_t loser = j * n_tasks + config.pairwise_task;
      const double margin = static_cast<double>(z[winner]) - static_cast<double>(z[loser]);
      loss += share * softplus(-margin);
      const auto pull = static_cast<float>(share * sigmoid(-margin));
      d_z[winner] -= pull;
      d_z[loser] += pull;
    }
  }
  return loss;
}

}  // namespace

base::Result<void> LossConfig::validate(std::size_t n_tasks) const {
  if (task_weights.size() != n_tasks) {
    return fail(ErrorCode::kInvalidArgument, "task_weights has {} entries, the model has {} tasks",
                task_weights.size(), n_tasks);
  }
  for (const double weight : task_weights) {
    if (!(weight >= 0) || !std::isfinite(weight)) {
      return fail(ErrorCode::kInvalidArgument, "task_weights: {} is not a weight", weight);
    }
  }
  if (!(pairwise_weight >= 0) || !std::isfinite(pairwise_weight)) {
    return fail(ErrorCode::kInvalidArgument, "pairwise_weight {} is not a weight", pairwise_weight);
  }
  if (!(gate_weight >= 0) || !std::isfinite(gate_weight)) {
    return fail(ErrorCode::kInvalidArgument, "gate_weight {} is not a weight", gate_weight);
  }
  if (pairwise_task >= n_tasks) {
    return fail(ErrorCode::kInvalidArgument, "pairwise_task {} is not below {} tasks",
                pairwise_task, n_tasks);
  }
  return {};
}

double softplus(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); }

double sigmoid(double x) {
  if (x >= 0) return 1.0 / (1.0 + std::exp(-x));
  const double e = std::exp(x);
  return e / (1.0 + e);
}

double binary_cross_entropy(double z, double label) { return softplus(z) - label * z; }

void count_loss_terms(const SlateLabels& labels, const LossConfig& config, LossTerms& terms) {
  const std::size_t n_tasks = config.task_weights.size();
  terms.cells.resize(n_tasks, 0);
  std::uint64_t clicked = 0;
  std::uint64_t not_clicked = 0;
  for (std::size_t i = 0; i < labels.weight.size(); ++i) {
    if (labels.weight[i] != 0.0F) ++terms.cells[i % n_tasks];
  }
  for (std::size_t c = 0; c * n_tasks < labels.weight.size(); ++c) {
    const PairSide side = pair_side(labels, config, n_tasks, c);
    if (side == PairSide::kClicked) ++clicked;
    if (side == PairSide::kNotClicked) ++not_clicked;
  }
  terms.pairs += clicked * not_clicked;
}

namespace {

/// The importance weight of a fake negative, or of the positive that corrects it.
double fake_negative_weight(double z, const SlateLabels& labels) {
  const double p = sigmoid(z);
  return labels.correction ? 1 + p : (1 - p) * (1 + p);
}

double cell_loss(double z, double label, const SlateLabels& labels) {
  if (labels.fake_negatives) {
    return fake_negative_weight(z, labels) * binary_cross_entropy(z, label);
  }
  return labels.correction ? -z : binary_cross_entropy(z, label);
}

}  // namespace

double cell_gradient(double z, double label, const SlateLabels& labels) {
  if (labels.fake_negatives) return fake_negative_weight(z, labels) * (sigmoid(z) - label);
  return labels.correction ? -1 : sigmoid(z) - label;
}

double add_loss(std::span<const float> z, const SlateLabels& labels, const LossConfig& config,
                const LossTerms& batch_terms, std::span<float> d_z) {
  const std::size_t n_tasks = config.task_weights.size();
  SF_CHECK(z.size() == d_z.size() && z.size() == labels.label.size() &&
           z.size() == labels.weight.size());
  double loss = 0;
  for (std::size_t i = 0; i < z.size(); ++i) {
    d_z[i] = 0.0F;
    if (labels.weight[i] == 0.0F) continue;
    const std::size_t task = i % n_tasks;
    const double share = config.task_weights[task] * static_cast<double>(labels.weight[i]) /
                         static_cast<double>(batch_terms.cells[task]);
    const double logit = static_cast<double>(z[i]);
    const double label = static_cast<double>(labels.label[i]);
    loss += share * cell_loss(logit, label, labels);
    d_z[i] = static_cast<float>(share * cell_gradient(logit, label, labels));
  }
  if (batch_terms.pairs > 0) {
    loss += add_pairs(z, labels, config,
                      config.pairwise_weight / static_cast<double>(batch_terms.pairs), d_z);
  }
  return loss;
}

}  // namespace sirenfeed::model
