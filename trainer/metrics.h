#pragma once
// Exact offline metrics. All sums are in double and in the order of the input. A metric that the
// input does not define (no row, one class) is NaN.
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/clock.h"

namespace sirenfeed::trainer {

/// Scored cells of one task: probabilities in [0, 1] and labels 0 or 1, of equal length.
struct Scored {
  std::span<const double> probability;
  std::span<const std::uint8_t> label;
};

/// Mean of −ln p(label), p clamped to [1e-7, 1 − 1e-7].
[[nodiscard]] double log_loss(const Scored& scored);
/// Log loss over the entropy of the cells' own rate.
[[nodiscard]] double normalized_entropy(const Scored& scored);
/// P(score of a positive > score of a negative) + ½ P(equal).
[[nodiscard]] double auc(const Scored& scored);
/// Σ over 20 equal-width bins of |Σp − Σy| / rows.
[[nodiscard]] double expected_calibration_error(const Scored& scored);

struct GroupedAuc {
  double value = 0;        // AUC of each group with both classes, weighted by its rows
  std::size_t groups = 0;  // with both classes
  std::size_t rows = 0;    // in them
};
/// `group` names each cell's group: the user, the impression, or the user and day.
[[nodiscard]] GroupedAuc grouped_auc(const Scored& scored, std::span<const std::uint64_t> group);
/// Groups cells by (user, UTC day). The fair per-user figure when the predictions were made with
/// the user's state frozen at the day's start.
[[nodiscard]] GroupedAuc user_day_auc(const Scored& scored, std::span<const std::uint64_t> user,
                                      std::span<const base::UnixMs> time_ms);

struct RankingMetrics {
  double ndcg10 = 0;
  double mean_average_precision = 0;
  double mean_reciprocal_rank = 0;
  std::size_t slates = 0;  // of several items with at least one positive
};
/// Ranking within slates: `slate` names each cell's slate; ties in the score keep the input's
/// order.
[[nodiscard]] RankingMetrics ranking_metrics(const Scored& scored,
                                             std::span<const std::uint64_t> slate);

}  // namespace sirenfeed::trainer
