#include "trainer/metric_set.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

namespace sirenfeed::trainer {
namespace {

// `users` users with 1 to 9 impressions of `slate` items each; tied scores now and then.
MetricCells random_cells(std::uint64_t seed, std::uint32_t users, std::size_t slate) {
  std::mt19937_64 random(seed);
  MetricCells cells;
  std::uint64_t impression = 0;
  for (std::uint32_t user = 0; user < users; ++user) {
    const std::uint64_t impressions = 1 + random() % 9;
    for (std::uint64_t i = 0; i < impressions; ++i, ++impression) {
      for (std::size_t item = 0; item < slate; ++item) {
        const auto label = static_cast<std::uint8_t>(random() % 3 == 0 ? 1 : 0);
        cells.user.push_back(user);
        cells.user_day.push_back(10 * user + i / 3);
        cells.impression.push_back(impression);
        cells.label.push_back(label);
        cells.probability.push_back((static_cast<double>(random() % 200) + 40 * label) / 240);
        cells.frozen_probability.push_back((static_cast<double>(random() % 90) + label) / 91);
      }
    }
  }
  return cells;
}

// The cells of a bootstrap sample, written out: each user as often as it was drawn, each time as
// another user.
MetricCells written_out(const MetricCells& cells, const UserResamples& resamples,
                        std::size_t sample) {
  MetricCells out;
  std::uint32_t copy = 0;
  for (std::uint32_t user = 0; user < resamples.users(); ++user) {
    const std::uint8_t count =
        resamples.counts(sample / UserResamples::kLanes, user)[sample % UserResamples::kLanes];
    for (std::uint8_t n = 0; n < count; ++n, ++copy) {
      for (std::size_t i = 0; i < cells.user.size(); ++i) {
        if (cells.user[i] != user) continue;
        out.user.push_back(copy);
        out.user_day.push_back(1000 * copy + cells.user_day[i] % 10);
        out.impression.push_back(100'000 * copy + cells.impression[i]);
        out.label.push_back(cells.label[i]);
        out.probability.push_back(cells.probability[i]);
        out.frozen_probability.push_back(cells.frozen_probability[i]);
      }
    }
  }
  return out;
}

TEST(MetricSet, AResampleEqualsTheMetricsOfItsCellsWrittenOut) {
  for (const std::size_t slate : {1U, 5U}) {
    const MetricCells cells = random_cells(5 + slate, 30, slate);
    const UserResamples resamples(30, 70, 3);  // more than a block
    const MetricReplicates replicates = measure_resamples(cells, resamples);
    for (const std::size_t sample : {0U, 1U, 63U, 64U, 69U}) {
      const MetricValues expected = measure(written_out(cells, resamples, sample));
      for (std::size_t m = 0; m < kMetrics; ++m) {
        SCOPED_TRACE(metric_key(static_cast<Metric>(m)));
        ASSERT_EQ(replicates[m].size(), 70U);
        if (std::isnan(expected[m])) {
          EXPECT_TRUE(std::isnan(replicates[m][sample]));
        } else {
          EXPECT_NEAR(replicates[m][sample], expected[m], 1e-12);
        }
      }
    }
  }
}

TEST(MetricSet, ASampleDrawsAsManyUsersAsThereAre) {
  const UserResamples resamples(500, 65, 1);
  std::size_t absent = 0;
  for (std::size_t sample = 0; sample < 65; ++sample) {
    std::size_t drawn = 0;
    for (std::size_t user = 0; user < 500; ++user) {
      const std::uint8_t count = resamples.counts(sample / 64, user)[sample % 64];
      drawn += count;
      absent += count == 0 ? 1 : 0;
    }
    EXPECT_EQ(drawn, 500U);
  }
  EXPECT_NEAR(static_cast<double>(absent) / (500 * 65), std::exp(-1), 0.01);
}

TEST(MetricSet, ASampleFollowsFromItsNumberAndTheSeed) {
  const UserResamples few(40, 10, 9), many(40, 200, 9), other(40, 10, 10);
  const auto sample = [](const UserResamples& resamples, std::size_t number) {
    std::vector<std::uint8_t> counts;
    for (std::size_t u = 0; u < 40; ++u) counts.push_back(resamples.counts(0, u)[number]);
    return counts;
  };
  EXPECT_EQ(sample(few, 7), sample(many, 7));
  EXPECT_NE(sample(few, 7), sample(few, 8));
  EXPECT_NE(sample(few, 7), sample(other, 7));
}

TEST(MetricSet, TheSpreadOfAMeanIsThatOfTheory) {
  // Users with one cell each: the log loss is a mean of independent values.
  std::mt19937_64 random(4);
  MetricCells cells;
  for (std::uint32_t user = 0; user < 2000; ++user) {
    cells.user.push_back(user);
    cells.user_day.push_back(user);
    cells.impression.push_back(user);
    cells.label.push_back(static_cast<std::uint8_t>(random() % 2));
    cells.probability.push_back(0.1 + 0.8 * static_cast<double>(random() % 1000) / 1000);
  }
  double mean = 0, square = 0;
  for (std::size_t i = 0; i < 2000; ++i) {
    const double loss = cell_log_loss(cells.probability[i], cells.label[i]);
    mean += loss / 2000;
    square += loss * loss / 2000;
  }
  const double expected = std::sqrt((square - mean * mean) / 2000);
  const auto replicates = measure_resamples(cells, UserResamples(2000, 1000, 6));
  const auto& losses = replicates[static_cast<std::size_t>(Metric::kLogLoss)];
  double center = 0, spread = 0;
  for (const double loss : losses) center += loss / 1000;
  for (const double loss : losses) spread += (loss - center) * (loss - center) / 1000;
  EXPECT_NEAR(center, mean, 4 * expected / std::sqrt(1000.0));
  EXPECT_NEAR(std::sqrt(spread), expected, 0.1 * expected);
}

TEST(MetricSet, NoCellGivesNoFigure) {
  for (const double value : measure({})) EXPECT_TRUE(std::isnan(value));
  for (const auto& values : measure_resamples({}, UserResamples(3, 5, 1))) {
    ASSERT_EQ(values.size(), 5U);
    for (const double value : values) EXPECT_TRUE(std::isnan(value));
  }
}

}  // namespace
}  // namespace sirenfeed::trainer
