#include "app/sample_statistics.h"

#include <gtest/gtest.h>

#include <cmath>

namespace sirenfeed::app {
namespace {

TEST(SampleStatistics, MeanAndDeviationOfKnownValues) {
  EXPECT_DOUBLE_EQ(mean_of({1, 2, 6}), 3);
  EXPECT_DOUBLE_EQ(deviation_of({1, 2, 6}), std::sqrt(7));
  EXPECT_TRUE(std::isnan(mean_of({})));
  EXPECT_TRUE(std::isnan(deviation_of({4})));
  EXPECT_TRUE(std::isnan(mean_of({1, std::nan("")})));
}

TEST(SampleStatistics, PercentilesAreLinearBetweenNeighbours) {
  EXPECT_DOUBLE_EQ(percentile_of({4, 1, 3, 2}, 0.5), 2.5);
  EXPECT_DOUBLE_EQ(percentile_of({4, 1, 3, 2}, 0), 1);
  EXPECT_DOUBLE_EQ(percentile_of({4, 1, 3, 2}, 1), 4);
  EXPECT_DOUBLE_EQ(percentile_of({0, 10}, 0.025), 0.25);
  EXPECT_DOUBLE_EQ(percentile_of({std::nan(""), 7}, 0.9), 7);
  EXPECT_TRUE(std::isnan(percentile_of({std::nan("")}, 0.9)));
}

}  // namespace
}  // namespace sirenfeed::app
