#pragma once
// The figures of an evaluation's table over one set of cells, and their bootstrap by user.
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "trainer/metrics.h"

namespace sirenfeed::trainer {

enum class Metric : std::uint8_t {
  kNormalizedEntropy,
  kAuc,
  kUserAuc,        // GAUC by user, on live predictions: biased (see metric_notes in the report)
  kUserDayAuc,     // by (user, UTC day), on live predictions: less biased
  kFrozenAuc,      // by (user, UTC day), the user frozen at the day's first impression: fair
  kImpressionAuc,  // within impressions of several items
  kLogLoss,
  kCalibrationError,
  kNdcg10,
  kMeanAveragePrecision,
  kMeanReciprocalRank,
};
inline constexpr std::size_t kMetrics = 11;
/// "ne", "auc", "gauc_user_live", …: as in JSON.
[[nodiscard]] std::string_view metric_key(Metric metric);
/// "NE", "AUC", …: as in tables.
[[nodiscard]] std::string_view metric_title(Metric metric);

/// One value a metric; NaN where the cells do not define it. Impression metrics are undefined where
/// no impression has several items.
using MetricValues = std::array<double, kMetrics>;

/// Known cells of one task, all columns of equal length. Sorted by user, so that the cells of one
/// user, of one user and day, and of one impression stand together.
struct MetricCells {
  std::vector<std::uint32_t> user;  // dense: below the number of users that weights are drawn for
  std::vector<std::uint64_t> user_day;
  std::vector<std::uint64_t> impression;
  std::vector<std::uint8_t> label;
  std::vector<double> probability;  // the model's; the columns above are the same for all models
  std::vector<double> frozen_probability;  // of frozen users; empty: kFrozenAuc is undefined
};

[[nodiscard]] MetricValues measure(const MetricCells& cells);

/// How often each of `users` users is drawn in each of `resamples` bootstrap samples: as many draws
/// with replacement as there are users. A sample depends on the seed and its number alone.
class UserResamples {
 public:
  /// Samples are kept in blocks of this many, user by user within a block.
  static constexpr std::size_t kLanes = 64;

  UserResamples(std::size_t users, std::size_t resamples, std::uint64_t seed);

  [[nodiscard]] std::size_t users() const { return users_; }
  [[nodiscard]] std::size_t resamples() const { return resamples_; }
  [[nodiscard]] std::size_t blocks() const { return (resamples_ + kLanes - 1) / kLanes; }
  /// [kLanes] counts of `user` in the samples of `block`; samples past resamples() are 0.
  [[nodiscard]] const std::uint8_t* counts(std::size_t block, std::size_t user) const {
    return counts_.data() + (block * users_ + user) * kLanes;
  }

 private:
  std::size_t users_;
  std::size_t resamples_;
  std::vector<std::uint8_t> counts_;  // users × resamples bytes
};

/// Each metric over each bootstrap sample of the cells' users: [metric][sample]. Exact, not binned:
/// a sample of all users once equals measure(). Blocks run in parallel; the values do not depend on
/// that.
using MetricReplicates = std::array<std::vector<double>, kMetrics>;
[[nodiscard]] MetricReplicates measure_resamples(const MetricCells& cells,
                                                 const UserResamples& resamples);

}  // namespace sirenfeed::trainer
