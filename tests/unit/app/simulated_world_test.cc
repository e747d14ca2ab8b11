#include "app/simulated_world.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

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

TEST(SimulatedWorld, ItemsAreBornAtTheirRateHoweverOftenOneLooks) {
  for (const base::UnixMs step : {base::kMsPerDay, base::kMsPerHour, base::UnixMs{60'000}}) {
    SimulatedWorld world({.items_per_day = 75});
    const base::UnixMs start = WorldConfig{}.start_ms;
    std::size_t born = world.births_until(start).size() - WorldConfig{}.items_at_start;
    for (base::UnixMs t = start; t <= start + 20 * base::kMsPerDay; t += step) {
      born += world.births_until(t).size();
    }
    EXPECT_NEAR(static_cast<double>(born), 20 * 75, 4 * std::sqrt(20.0 * 75)) << step;
  }
}

TEST(SimulatedWorld, ShowingATopicWearsItOutForAnHour) {
  SimulatedWorld world({});
  const base::UnixMs time = WorldConfig{}.start_ms;
  world.births_until(time);
  const double before = world.click_probability(0, 0, time);
  world.show(0, 0, time - 1000);
  const double after = world.click_probability(0, 0, time);
  const auto log_odds = [](double p) { return std::log(p / (1 - p)); };
  EXPECT_NEAR(log_odds(before) - log_odds(after), 0.4, 1e-9);
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

double logit(double p) { return std::log(p / (1 - p)); }

TEST(SimulatedWorld, WhatIsShownChangesNeitherVisitsNorItems) {
  SimulatedWorld quiet({.seed = 5}), busy({.seed = 5});
  for (int i = 0; i < 200; ++i) {
    const WorldVisit a = quiet.next_visit(), b = busy.next_visit();
    EXPECT_EQ(a.time_ms, b.time_ms);
    EXPECT_EQ(quiet.births_until(a.time_ms), busy.births_until(b.time_ms));
    for (const std::size_t item : busy.random_items(b.user, b.time_ms, 3)) {
      (void)busy.draw(busy.click_probability(b.user, item, b.time_ms));
      busy.show(b.user, item, b.time_ms);
    }
  }
  ASSERT_EQ(quiet.items().size(), busy.items().size());
  EXPECT_EQ(quiet.items().back().quality, busy.items().back().quality);
}

TEST(SimulatedWorld, TheSameHourOfAnotherWeekDiffersByDriftAlone) {
  const base::UnixMs start = WorldConfig{}.start_ms;
  const base::UnixMs week = 7 * base::kMsPerDay;
  const auto difference = [&](const WorldConfig& config) {
    SimulatedWorld world(config);
    world.births_until(start);
    double largest = 0;
    for (std::uint32_t user = 0; user < 20; ++user) {
      const double fresh = std::exp(-static_cast<double>(start + week - world.items()[0].born_ms) /
                                    (12.0 * base::kMsPerHour)) -
                           std::exp(-static_cast<double>(start - world.items()[0].born_ms) /
                                    (12.0 * base::kMsPerHour));
      const double later = logit(world.click_probability(user, 0, start + week));
      const double now = logit(world.click_probability(user, 0, start));
      largest = std::max(largest, std::abs(later - now - fresh));
    }
    return largest;
  };
  EXPECT_NEAR(difference({.phase_drift_h_per_day = 0, .quality_drift_per_day = 0}), 0, 1e-9);
  EXPECT_GT(difference({.phase_drift_h_per_day = 0.1, .quality_drift_per_day = 0}), 0.05);
  EXPECT_GT(difference({.phase_drift_h_per_day = 0, .quality_drift_per_day = 0.1}), 1e-4);
}

TEST(SimulatedWorld, TheWeeklyHabitHasAPeriodOfSevenDays) {
  const WorldConfig config{.daily_amplitude = 0,
                           .weekly_amplitude = 2,
                           .phase_drift_h_per_day = 0,
                           .quality_drift_per_day = 0};
  SimulatedWorld world(config);
  world.births_until(config.start_ms);
  double least = 1, most = 0;
  for (int day = 0; day < 7; ++day) {
    // Old enough that freshness is gone.
    const double p = world.click_probability(3, 0, config.start_ms + (30 + day) * base::kMsPerDay);
    least = std::min(least, p);
    most = std::max(most, p);
    EXPECT_NEAR(p, world.click_probability(3, 0, config.start_ms + (37 + day) * base::kMsPerDay),
                1e-9);
  }
  EXPECT_GT(most - least, 0.5);
}

TEST(SimulatedWorld, TheOptimumIsTheBestOfEveryChoiceAndRandomItsMean) {
  SimulatedWorld world({.items_at_start = 12});
  const base::UnixMs time = WorldConfig{}.start_ms + 1000;
  world.births_until(time);
  world.show(4, 5, time - 500);
  const auto items = world.showable(4, time);
  ASSERT_GE(items.size(), 4U);
  double best = 0, sum = 0, pairs = 0;
  for (const std::size_t a : items) {
    for (const std::size_t b : items) {
      if (a == b) continue;
      const double value =
          world.click_probability(4, a, time) + world.click_probability(4, b, time);
      best = std::max(best, value);
      sum += value;
      pairs += 1;
    }
  }
  const WorldOptimum optimum = world.optimum(4, time, 2);
  EXPECT_NEAR(optimum.best, best, 1e-12);
  EXPECT_NEAR(optimum.random, sum / pairs, 1e-9);
  // More than there are: all of them.
  const WorldOptimum all = world.optimum(4, time, 1000);
  EXPECT_NEAR(all.best, all.random, 1e-9);
}

TEST(SimulatedWorld, RandomItemsLiveAndAreNotAmongTheLastTwenty) {
  SimulatedWorld world({});
  const base::UnixMs time = WorldConfig{}.start_ms + base::kMsPerDay;
  world.births_until(time);
  std::vector<std::size_t> shown;
  for (int i = 0; i < 200; ++i) {
    const auto items = world.random_items(2, time + i, 2);
    ASSERT_EQ(items.size(), 2U);
    EXPECT_NE(items[0], items[1]);
    for (const std::size_t item : items) {
      EXPECT_TRUE(world.lives(world.items()[item], time + i));
      const auto last = shown.size() > 20 ? shown.end() - 20 : shown.begin();
      EXPECT_EQ(std::find(last, shown.end(), item), shown.end());
    }
    for (const std::size_t item : items) {
      world.show(2, item, time + i);
      shown.push_back(item);
    }
  }
}

TEST(WorldConfig, NamesTheFieldThatIsWrong) {
  const auto result = WorldConfig{.users = 0}.validate();
  ASSERT_FALSE(result);
  EXPECT_NE(result.error().message.find("users"), std::string::npos);
}

}  // namespace
}  // namespace sirenfeed::app
