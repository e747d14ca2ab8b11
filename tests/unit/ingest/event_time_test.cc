#include "ingest/event_time.h"

#include <gtest/gtest.h>

#include <random>

namespace sirenfeed::ingest {
namespace {

TEST(EventTime, ReadsIso8601WithZones) {
  EXPECT_EQ(parse_iso8601("2022-04-24T15:05:41.436Z"), 1650812741436);
  EXPECT_EQ(parse_iso8601("2022-04-24T17:05:41.436+02:00"), 1650812741436);
  EXPECT_EQ(parse_iso8601("2022-04-24 11:35:41.436-0330"), 1650812741436);
  EXPECT_EQ(parse_iso8601("2022-04-24t17:05:41,4369999+02"), 1650812741436);
  EXPECT_EQ(parse_iso8601("2022-04-24T15:05Z"), 1650812700000);
  EXPECT_EQ(parse_iso8601("1970-01-01T00:00:00Z"), 0);
  EXPECT_EQ(parse_iso8601("1969-12-31T23:59:59.999Z"), -1);
  EXPECT_EQ(parse_iso8601("2024-02-29T00:00:00.5Z"), 1709164800500);
  EXPECT_EQ(parse_iso8601("2016-12-31T23:59:60Z"), 1483228800000);  // leap second
}

TEST(EventTime, RefusesWhatIsNoTime) {
  for (const char* text :
       {"", "2022-04-24", "2022-04-24T15:05:41", "2022-04-24T15:05:41.436", "2022-13-01T00:00Z",
        "2022-02-29T00:00Z", "2022-04-31T00:00Z", "2022-04-24T24:00Z", "2022-04-24T15:60Z",
        "2022-04-24T15:05:61Z", "2022-04-24T15:05:41.Z", "2022-04-24T15:05:41Zx", "22-04-24T15:05Z",
        "2022-04-24T15:05+2", "2022-04-24T15:05+24:00", "2022-04-24T15:05+02:60",
        "2022/04/24T15:05Z", "2022-4-24T15:05Z", "yesterday"}) {
    EXPECT_EQ(parse_iso8601(text), std::nullopt) << text;
  }
}

TEST(EventTime, ReadsDaysAsMidnightUtc) {
  EXPECT_EQ(parse_iso_date("2022-04-11"), 1649635200000);
  EXPECT_EQ(parse_iso_date("2022-04-11Z"), std::nullopt);
  EXPECT_EQ(parse_iso_date("2022-04-1"), std::nullopt);
}

TEST(EventTime, FormatsWhatItReads) {
  constexpr unsigned kSeed = 11;
  std::mt19937_64 random(kSeed);
  std::uniform_int_distribution<base::UnixMs> times(0, 253'402'300'799'999);
  for (int i = 0; i < 2000; ++i) {
    const base::UnixMs time = times(random);
    EXPECT_EQ(parse_iso8601(format_iso8601(time)), time) << "seed " << kSeed;
  }
  EXPECT_EQ(format_iso8601(1650812741436), "2022-04-24T15:05:41.436Z");
}

}  // namespace
}  // namespace sirenfeed::ingest
