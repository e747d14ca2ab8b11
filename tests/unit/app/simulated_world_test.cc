#include "app/simulated_world.h"

#include <gtest/gtest.h>

#include <cmath>

namespace sirenfeed::app {
namespace {

TEST(SimulatedWorld, EverythingFollowsFromTheSeed) {
  SimulatedWorld a({.seed = 7}), b({.seed = 7});
  for (int i = 0; i < 100; ++i) {
    const WorldVisit x = a.next_visit(), y = b.next_visit();
    EXPECT_EQ(x.time_ms, y.time_ms);
    EXPECT_EQ(x.user, y.user);
    EXPECT_EQ(a.births_until(x.time_ms), b.births_until(x.time_ms));
  }
}

TEST(SimulatedWorld, VisitsComeInTimeOrder) {
  SimulatedWorld world({.users = 20});
  base::UnixMs last = 0;
  for (int i = 0; i < 1000; ++i) {
    const WorldVisit visit = world.next_visit();
    EXPECT_GE(visit.time_ms, last);
    last = visit.time_ms;
  }
}

TEST(SimulatedWorld, ShowingATopicWearsItOutForAnHour) {
  SimulatedWorld world({});
  const base::UnixMs time = WorldConfig{}.start_ms;
  world.births_until(time);
  const double before = world.click_probability(0, 0, time);
  world.show(0, 0, time - 1000);
  const double after = world.click_probability(0, 0, time);
  const auto logit = [](double p) { return std::log(p / (1 - p)); };
  EXPECT_NEAR(logit(before) - logit(after), 0.4, 1e-9);
}

TEST(SimulatedWorld, ShowableItemsAreAliveAndUnseen) {
  SimulatedWorld world({});
  const base::UnixMs time = WorldConfig{}.start_ms + base::kMsPerDay;
  world.births_until(time);
  const auto before = world.showable(3, time);
  ASSERT_FALSE(before.empty());
  for (const std::size_t item : before) {
    EXPECT_LE(world.items()[item].born_ms, time);
    EXPECT_GT(world.items()[item].born_ms, time - WorldConfig{}.item_life_ms);
  }
  world.show(3, before.front(), time);
  const auto after = world.showable(3, time);
  EXPECT_EQ(after.size() + 1, before.size());
}

TEST(SimulatedWorld, AHabitHasItsPeakOnceADay) {
  SimulatedWorld world({.weekly_amplitude = 0});
  const base::UnixMs start = WorldConfig{}.start_ms;
  world.births_until(start);
  double least = 1, most = 0;
  for (int hour = 0; hour < 24; ++hour) {
    const double p = world.click_probability(0, 0, start + hour * base::kMsPerHour);
    least = std::min(least, p);
    most = std::max(most, p);
  }
  EXPECT_GT(most - least, 0.3);
}

TEST(WorldConfig, NamesTheFieldThatIsWrong) {
  const auto result = WorldConfig{.users = 0}.validate();
  ASSERT_FALSE(result);
  EXPECT_NE(result.error().message.find("users"), std::string::npos);
}

}  // namespace
}  // namespace sirenfeed::app
