#include "features/frozen_users.h"

#include <gtest/gtest.h>

namespace sirenfeed::features {
namespace {

UserState with_entries(std::size_t count) {
  UserState state;
  state.sequence.resize(count);
  return state;
}

TEST(FrozenUsers, AUserStaysAsAtTheFirstImpressionOfTheDay) {
  FrozenUsers users;
  const base::UnixMs day = base::kMsPerDay;
  EXPECT_EQ(users.of_day("u", 5, with_entries(1)).sequence.size(), 1U);
  EXPECT_EQ(users.of_day("u", day - 1, with_entries(2)).sequence.size(), 1U);
  EXPECT_EQ(users.of_day("v", day - 1, with_entries(7)).sequence.size(), 7U);
  EXPECT_EQ(users.of_day("u", day, with_entries(3)).sequence.size(), 3U);
  EXPECT_EQ(users.of_day("u", day + 1, with_entries(4)).sequence.size(), 3U);
}

TEST(FrozenUsers, DaysBefore1970AreDaysToo) {
  FrozenUsers users;
  EXPECT_EQ(users.of_day("u", -1, with_entries(1)).sequence.size(), 1U);
  EXPECT_EQ(users.of_day("u", 1, with_entries(2)).sequence.size(), 2U);
}

}  // namespace
}  // namespace sirenfeed::features
