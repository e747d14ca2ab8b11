#include "ingest/replay_time.h"

#include <gtest/gtest.h>

namespace sirenfeed::ingest {
namespace {

TEST(ReplayTime, SecondsAndMillisecondsAreToldApartByTheirSize) {
  EXPECT_EQ(parse_replay_time("1260759144"), 1'260'759'144'000);
  EXPECT_EQ(parse_replay_time("1260759144.0"), 1'260'759'144'000);
  EXPECT_EQ(parse_replay_time("1260759144.123"), 1'260'759'144'123);
  EXPECT_EQ(parse_replay_time("1.260759144e9"), 1'260'759'144'000);
  EXPECT_EQ(parse_replay_time("1260759144123"), 1'260'759'144'123);
  EXPECT_EQ(parse_replay_time("1260759144123.9"), 1'260'759'144'123);
  EXPECT_EQ(parse_replay_time("0"), 0);
}

TEST(ReplayTime, DatesWithoutAZoneAreUtc) {
  EXPECT_EQ(parse_replay_time("2022-04-24T15:05:41Z"), 1'650'812'741'000);
  EXPECT_EQ(parse_replay_time("2022-04-24T17:05:41+02:00"), 1'650'812'741'000);
  EXPECT_EQ(parse_replay_time("2022-04-24 15:05:41"), 1'650'812'741'000);
  EXPECT_EQ(parse_replay_time("2022-04-24"), 1'650'758'400'000);
}

TEST(ReplayTime, AmericanTimesHaveTwelveHours) {
  EXPECT_EQ(parse_replay_time("11/15/2019 9:05:58 AM"), 1'573'808'758'000);
  EXPECT_EQ(parse_replay_time("11/15/2019 12:30:00 PM"), 1'573'821'000'000);
  EXPECT_EQ(parse_replay_time("11/14/2019 12:00:00 AM"), 1'573'689'600'000);
  EXPECT_EQ(parse_replay_time("2/29/2020 1:00:00 PM"), 1'582'981'200'000);
}

TEST(ReplayTime, AnythingElseIsNone) {
  for (const char* text : {"", "-1", "-5.5", "soon", "1e20", "nan", "inf", "253402300800000",
                           "2022-02-30", "2/30/2020 1:00:00 PM", "11/15/2019 13:00:00 PM",
                           "11/15/2019 0:00:00 AM", "11/15/2019 9:05:58", "11/15/2019 9:60:58 AM",
                           "11/15/12019 9:00:58 AM", "1 ", "12x", "/", "1/1/1960 1:00:00 AM"}) {
    EXPECT_EQ(parse_replay_time(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace sirenfeed::ingest
