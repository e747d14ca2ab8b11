#include "trainer/metrics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

namespace sirenfeed::trainer {
namespace {

double naive_auc(const Scored& scored) {
  double wins = 0;
  double pairs = 0;
  for (std::size_t i = 0; i < scored.label.size(); ++i) {
    for (std::size_t j = 0; j < scored.label.size(); ++j) {
      if (scored.label[i] == 0 || scored.label[j] != 0) continue;
      pairs += 1;
      if (scored.probability[i] > scored.probability[j]) wins += 1;
      if (scored.probability[i] == scored.probability[j]) wins += 0.5;
    }
  }
  return wins / pairs;
}

TEST(Metrics, AucWithTiesEqualsTheCountOfPairs) {
  const std::uint64_t seed = 11;
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  for (int round = 0; round < 50; ++round) {
    std::vector<double> p;
    std::vector<std::uint8_t> y;
    for (int i = 0; i < 40; ++i) {
      p.push_back(static_cast<double>(random() % 8) / 8);
      y.push_back(static_cast<std::uint8_t>(random() % 2));
    }
    const Scored scored{p, y};
    EXPECT_NEAR(auc(scored), naive_auc(scored), 1e-12);
  }
}

TEST(Metrics, OneClassOrNoRowIsUndefined) {
  const std::vector<double> p{0.2, 0.4};
  const std::vector<std::uint8_t> y{1, 1};
  EXPECT_TRUE(std::isnan(auc({p, y})));
  EXPECT_TRUE(std::isnan(normalized_entropy({p, y})));
  EXPECT_TRUE(std::isnan(log_loss({})));
  EXPECT_TRUE(std::isnan(expected_calibration_error({})));
  EXPECT_TRUE(std::isnan(ranking_metrics({}, {}).ndcg10));
}

TEST(Metrics, LogLossAndEntropyOfAKnownTable) {
  const std::vector<double> p{0.8, 0.4, 0.25, 0.5};
  const std::vector<std::uint8_t> y{1, 0, 0, 1};
  const double expected = -(std::log(0.8) + std::log(0.6) + std::log(0.75) + std::log(0.5)) / 4;
  EXPECT_NEAR(log_loss({p, y}), expected, 1e-12);
  EXPECT_NEAR(normalized_entropy({p, y}), expected / std::log(2.0), 1e-12);
}

TEST(Metrics, PredictingTheRateHasNormalizedEntropyOne) {
  const std::vector<double> p(10, 0.3);
  const std::vector<std::uint8_t> y{1, 1, 1, 0, 0, 0, 0, 0, 0, 0};
  EXPECT_NEAR(normalized_entropy({p, y}), 1, 1e-12);
  EXPECT_NEAR(auc({p, y}), 0.5, 1e-12);
  EXPECT_NEAR(expected_calibration_error({p, y}), 0, 1e-12);
}

TEST(Metrics, CalibrationErrorsOfDifferentBinsDoNotCancel) {
  // Bin 2 (.10 to .15) predicts too little, bin 18 too much.
  const std::vector<double> p{0.12, 0.12, 0.92, 0.92};
  const std::vector<std::uint8_t> y{1, 0, 1, 0};
  EXPECT_NEAR(expected_calibration_error({p, y}), (0.76 + 0.84) / 4, 1e-12);
  // Within one bin they do.
  const std::vector<double> same{0.51, 0.54};
  const std::vector<std::uint8_t> one{1, 0};
  EXPECT_NEAR(expected_calibration_error({same, one}), 0.05 / 2, 1e-12);
  // 1 belongs to the last bin.
  const std::vector<double> certain{1.0};
  const std::vector<std::uint8_t> yes{1};
  EXPECT_NEAR(expected_calibration_error({certain, yes}), 0, 1e-12);
}

TEST(Metrics, GroupedAucWeighsUsersWithBothClassesByTheirRows) {
  const std::vector<double> p{0.9, 0.1, 0.2, 0.8, 0.3, 0.4, 0.5};
  const std::vector<std::uint8_t> y{1, 0, 1, 0, 0, 1, 1};
  const std::vector<std::uint64_t> user{1, 1, 2, 2, 2, 3, 3};  // AUC 1, 0 and none
  const GroupedAuc result = grouped_auc({p, y}, user);
  EXPECT_EQ(result.groups, 2U);
  EXPECT_EQ(result.rows, 5U);
  EXPECT_NEAR(result.value, 2.0 / 5, 1e-12);
}

TEST(Metrics, UserDayAucSplitsAUserAtMidnightUtc) {
  const std::vector<double> p{0.9, 0.1, 0.2, 0.8};
  const std::vector<std::uint8_t> y{1, 0, 1, 0};
  const std::vector<std::uint64_t> user{1, 1, 1, 1};
  const base::UnixMs day = base::kMsPerDay;
  EXPECT_EQ(user_day_auc({p, y}, user, std::vector<base::UnixMs>{0, day - 1, day, day + 1}).groups,
            2U);
  // The last millisecond before 1970 is another day than its first.
  EXPECT_EQ(user_day_auc({p, y}, user, std::vector<base::UnixMs>{-2, -1, 0, 1}).groups, 2U);
  EXPECT_EQ(user_day_auc({p, y}, user, std::vector<base::UnixMs>{0, 1, 2, 3}).groups, 1U);
}

TEST(Metrics, RankingOfAKnownSlate) {
  // Order by score: miss, hit, miss, hit.
  const std::vector<double> p{0.1, 0.9, 0.5, 0.7, /*single*/ 0.3, /*no hit*/ 0.5, 0.2};
  const std::vector<std::uint8_t> y{1, 0, 0, 1, 1, 0, 0};
  const std::vector<std::uint64_t> slate{1, 1, 1, 1, 2, 3, 3};
  const RankingMetrics result = ranking_metrics({p, y}, slate);
  EXPECT_EQ(result.slates, 1U);
  const double ideal = 1 + 1 / std::log2(3.0);
  EXPECT_NEAR(result.ndcg10, (1 / std::log2(3.0) + 1 / std::log2(5.0)) / ideal, 1e-12);
  EXPECT_NEAR(result.mean_average_precision, (1.0 / 2 + 2.0 / 4) / 2, 1e-12);
  EXPECT_NEAR(result.mean_reciprocal_rank, 0.5, 1e-12);
}

TEST(Metrics, AucOfWhatHasNoRankIsUndefined) {
  const std::vector<double> p{0.25, std::nan(""), 0.5};
  const std::vector<std::uint8_t> y{0, 1, 1};
  EXPECT_TRUE(std::isnan(auc({p, y})));
}

}  // namespace
}  // namespace sirenfeed::trainer
