#include "trainer/shuffle_times.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace sirenfeed::trainer {
namespace {

DecodedExample with_history(std::size_t tokens) {
  DecodedExample example;
  example.identity.impression_offset = 7;
  for (std::size_t i = 0; i < tokens; ++i) {
    model::HistoryToken token;
    token.time_ms = static_cast<std::int64_t>(1000 * i);
    token.item.item = i;
    example.slate.history.push_back(token);
  }
  return example;
}

std::vector<std::int64_t> times(const DecodedExample& example) {
  std::vector<std::int64_t> all;
  for (const model::HistoryToken& token : example.slate.history) all.push_back(token.time_ms);
  return all;
}

TEST(ShuffleTimes, PermutesTheTimesAndNothingElse) {
  const DecodedExample original = with_history(100);
  DecodedExample shuffled = original;
  shuffle_history_times(shuffled, 1);
  EXPECT_NE(times(shuffled), times(original));
  auto sorted = times(shuffled);
  std::sort(sorted.begin(), sorted.end());
  EXPECT_EQ(sorted, times(original));
  for (std::size_t i = 0; i < 100; ++i) EXPECT_EQ(shuffled.slate.history[i].item.item, i);
}

TEST(ShuffleTimes, FollowsFromTheSeedAndTheImpression) {
  DecodedExample a = with_history(50), b = with_history(50), other = with_history(50);
  other.identity.impression_offset = 8;
  shuffle_history_times(a, 1);
  shuffle_history_times(b, 1);
  shuffle_history_times(other, 1);
  EXPECT_EQ(times(a), times(b));
  EXPECT_NE(times(a), times(other));
}

TEST(ShuffleTimes, AnEmptyOrSingleHistoryStays) {
  DecodedExample none = with_history(0), one = with_history(1);
  shuffle_history_times(none, 1);
  shuffle_history_times(one, 1);
  EXPECT_EQ(times(one), (std::vector<std::int64_t>{0}));
}

}  // namespace
}  // namespace sirenfeed::trainer
