#include "serving/event_split.h"

#include <gtest/gtest.h>

namespace sirenfeed::serving {
namespace {

using Views = std::vector<std::string_view>;

Views split(std::string_view body, std::string_view type = "application/json") {
  const auto events = split_events(body, type);
  EXPECT_TRUE(events) << events.error().message;
  return events.value_or(Views{});
}

TEST(EventSplit, OneObjectIsOneEventHoweverItIsLaidOut) {
  EXPECT_EQ(split(R"( {"a":1} )"), (Views{R"({"a":1})"}));
  EXPECT_EQ(split("{\n \"a\": 1\n}\n").size(), 1U);
}

TEST(EventSplit, AnArrayIsCutAtItsOwnCommas) {
  EXPECT_EQ(split(R"([{"a":"],{\""}, {"b":[1,2]} ,3])"),
            (Views{R"({"a":"],{\""})", R"({"b":[1,2]})", "3"}));
}

TEST(EventSplit, LinesAreEventsByContentTypeOrBecauseTheFirstIsWhole) {
  EXPECT_EQ(split("{\"a\":1}\n\n{\"b\":2}\r\n"), (Views{R"({"a":1})", R"({"b":2})"}));
  EXPECT_EQ(split("{broken\n{\"b\":2}", "application/x-ndjson"), (Views{"{broken", R"({"b":2})"}))
      << "a broken line does not take the next one with it";
}

TEST(EventSplit, BodiesWithoutEventsNameTheBody) {
  for (const char* body : {"", "  \n", "[]", "[ ]", "[{}", "[{} {}]", "[{}]x", "[{},", "[\"a"}) {
    const auto events = split_events(body, "application/json");
    ASSERT_FALSE(events) << body;
    EXPECT_EQ(events.error().message.substr(0, 5), "body:");
  }
}

}  // namespace
}  // namespace sirenfeed::serving
