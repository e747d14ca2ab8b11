#pragma once
// Exact offline metrics. All sums are in double and in the order of the input. A metric that the
// input does not define (no row, one class) is NaN.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/clock.h"

namespace sirenfeed::trainer {

/// Scored cells of one task: probabilities in [0, 1] and labels 0 or 1, of equal length.
struct Scored {
  std::span<const double> probability;
  std::span<const std::uint8_t> label;
};

/// −ln p(label) of one cell, p clamped to [1e-7, 1 − 1e-7].
[[nodiscard]] double cell_log_loss(double probability, std::uint8_t label);
/// In nats, of a rate within (0, 1).
[[nodiscard]] double binary_entropy(double rate);
/// Which of the 20 equal-width bins of [0, 1]; 1 belongs to the last.
inline constexpr std::size_t kCalibrationBins = 20;
[[nodiscard]] std::size_t calibration_bin(double probability);

/// Mean of −ln p(label), p clamped to [1e-7, 1 − 1e-7].
[[nodiscard]] double log_loss(const Scored& scored);
/// Log loss over the entropy of the cells' own rate.
[[nodiscard]] double normalized_entropy(const Scored& scored);
/// P(score of a positive > score of a negative) + ½ P(equal).
[[nodiscard]] double auc(const Scored& scored);
/// Σ over 20 equal-width bins of |Σp − Σy| / rows.
[[nodiscard]] double expected_calibration_error(const Scored& scored);

/// One group of cells with both classes, or one slate of several items with a positive.
struct GroupAuc {
  std::size_t first = 0;  // its first cell in the input
  std::size_t rows = 0;
  double value = 0;
};
/// The AUC within each group that has both classes, by ascending group.
[[nodiscard]] std::vector<GroupAuc> group_aucs(const Scored& scored,
                                               std::span<const std::uint64_t> group);

struct GroupedAuc {
  double value = 0;        // AUC of each group with both classes, weighted by its rows
  std::size_t groups = 0;  // with both classes
  std::size_t rows = 0;    // in them
};
/// `group` names each cell's group: the user, the impression, or the user and day.
[[nodiscard]] GroupedAuc grouped_auc(const Scored& scored, std::span<const std::uint64_t> group);
/// Groups cells by (user, UTC day). The fair per-user figure only where the predictions were made
/// with the user's state frozen at the day's start; otherwise it is less biased than grouping by
/// user, as less of the user's live counters varies within a day.
[[nodiscard]] GroupedAuc user_day_auc(const Scored& scored, std::span<const std::uint64_t> user,
                                      std::span<const base::UnixMs> time_ms);

struct SlateRanking {
  std::size_t first = 0;  // its first cell in the input
  double ndcg10 = 0;
  double average_precision = 0;
  double reciprocal_rank = 0;
};
/// Of each slate of several items with at least one positive, by ascending slate; ties in the score
/// keep the input's order.
[[nodiscard]] std::vector<SlateRanking> slate_rankings(const Scored& scored,
                                                       std::span<const std::uint64_t> slate);

struct RankingMetrics {
  double ndcg10 = 0;
  double mean_average_precision = 0;
  double mean_reciprocal_rank = 0;
  std::size_t slates = 0;  // of several items with at least one positive
};
/// Means of slate_rankings().
[[nodiscard]] RankingMetrics ranking_metrics(const Scored& scored,
                                             std::span<const std::uint64_t> slate);

}  // namespace sirenfeed::trainer
