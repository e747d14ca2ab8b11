#include "ingest/event_parser.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <variant>

#include "base/hash.h"
#include "ingest/event_json.h"

namespace sirenfeed::ingest {
namespace {

constexpr base::UnixMs kNow = 1'700'000'000'000;
constexpr base::UnixMs kLogTime = kNow - 5;
constexpr Partition kPartitions = 8;

class EventParserTest : public testing::Test {
 protected:
  [[nodiscard]] InputRecord parse(Topic topic, std::optional<std::string> key,
                                  std::optional<std::string> value) {
    LogRecord record;
    const bool items = topic == Topic::kItems;
    record.source = {topic, items || !key ? 0 : partition_of(*key, kPartitions)};
    record.offset = 7;
    record.log_time_ms = kLogTime;
    record.key = std::move(key);
    record.value = std::move(value);
    return parser_.parse(std::move(record), kPartitions);
  }
  template <class Event>
  [[nodiscard]] Event parsed(Topic topic, const std::string& key, const std::string& value) {
    const InputRecord record = parse(topic, key, value);
    const auto* rejection = std::get_if<Rejection>(&record.content);
    EXPECT_EQ(rejection, nullptr) << value << ": " << rejection->detail;
    return rejection != nullptr ? Event{} : std::get<Event>(std::get<EventBody>(record.content));
  }
  void expect_rejected(Topic topic, std::optional<std::string> key,
                       std::optional<std::string> value, RejectReason reason,
                       const std::string& detail) {
    const InputRecord record = parse(topic, std::move(key), value);
    const auto* rejection = std::get_if<Rejection>(&record.content);
    ASSERT_NE(rejection, nullptr) << *value;
    EXPECT_EQ(reject_reason_name(rejection->reason), reject_reason_name(reason))
        << rejection->detail;
    EXPECT_NE(rejection->detail.find(detail), std::string::npos)
        << "'" << rejection->detail << "' does not contain '" << detail << "'";
    EXPECT_EQ(record.time_ms, kLogTime);
  }
  void expect_click_rejected(const std::string& fields, RejectReason reason,
                             const std::string& detail) {
    expect_rejected(Topic::kClicks, "u", "{\"user_id\":\"u\",\"item_id\":\"a\"," + fields + "}",
                    reason, detail);
  }
  void expect_time(const std::string& json, base::UnixMs time_ms) {
    const auto action = parsed<Action>(Topic::kClicks, "u",
                                       R"({"user_id":"u","item_id":"a","timestamp":)" + json + "}");
    EXPECT_EQ(action.time_ms, time_ms) << json;
  }

  base::EventClock clock_{kNow};
  EventParser parser_{ParserConfig{}, clock_};
};

TEST_F(EventParserTest, ReadsAnImpressionWithEverything) {
  const auto event = parsed<Impression>(
      Topic::kImpressions, "u1",
      R"({"impression_id":"i-1","user_id":"u1","timestamp":1650812741436,"request_id":"r-1",
          "surface":3,"items":["a",{"item_id":7,"position":0,"score":-0.3,"propensity":1}]})");
  EXPECT_EQ(event.impression_id, "i-1");
  EXPECT_EQ(event.user_id, "u1");
  EXPECT_EQ(event.time_ms, 1650812741436);
  EXPECT_EQ(event.request_id, "r-1");
  EXPECT_EQ(event.surface, "3");
  ASSERT_EQ(event.items.size(), 2U);
  EXPECT_EQ(event.items[0].item_id, "a");
  EXPECT_EQ(event.items[0].position, std::nullopt);
  EXPECT_EQ(event.items[1].item_id, "7");
  EXPECT_EQ(event.items[1].position, 0);
  EXPECT_EQ(event.items[1].score, -0.3);
  EXPECT_EQ(event.items[1].propensity, 1.0);
}

TEST_F(EventParserTest, ReadsActionsAndTheirDefaults) {
  const auto full = parsed<Action>(
      Topic::kClicks, "42",
      R"({"user_id":42,"item_id":"a","timestamp":"1650812742436","type":"like","value":12.5,
          "impression_id":"i-1","event_id":"e-1"})");
  EXPECT_EQ(full.user_id, "42");
  EXPECT_EQ(full.type, "like");
  EXPECT_EQ(full.value, 12.5);
  EXPECT_EQ(full.impression_id, "i-1");
  EXPECT_EQ(full.event_id, "e-1");
  const auto bare =
      parsed<Action>(Topic::kClicks, "u", R"({"user_id":"u","item_id":"a","timestamp":1650812742436,
                               "value":null,"impression_id":null})");
  EXPECT_EQ(bare.type, "click");
  EXPECT_EQ(bare.value, std::nullopt);
  EXPECT_EQ(bare.impression_id, std::nullopt);
}

TEST_F(EventParserTest, ReadsItemsAndKeepsDistinctTagsInOrder) {
  const auto event = parsed<ItemUpdate>(
      Topic::kItems, "a",
      R"({"item_id":"a","timestamp":1650812741436,"published_at":"2022-04-11T00:00:00Z",
          "author_id":"p","tags":["z","b","z",5],"numeric":{"duration_s":49.9,"n":3,"n":4},
          "title":"T","url":"","image_url":"i","language":"en","expires_at":4000000000000,
          "hidden":true})");
  EXPECT_EQ(event.published_at_ms, 1649635200000);
  EXPECT_EQ(event.expires_at_ms, 4000000000000);
  EXPECT_EQ(event.author_id, "p");
  EXPECT_EQ(event.tags, (std::vector<std::string>{"z", "b", "5"}));
  EXPECT_EQ(event.numeric,
            (std::vector<std::pair<std::string, double>>{{"duration_s", 49.9}, {"n", 4}}));
  EXPECT_EQ(event.title, "T");
  EXPECT_EQ(event.url, "");
  EXPECT_TRUE(event.hidden);
  EXPECT_FALSE(event.deleted);
}

TEST_F(EventParserTest, ReadsProfiles) {
  const auto event = parsed<UserUpdate>(Topic::kUsers, "u",
                                        R"({"user_id":"u","timestamp":1650812741436,"segment":"de",
                              "blocked_authors":["p","p"],"blocked_tags":["x"]})");
  EXPECT_EQ(event.segment, "de");
  EXPECT_EQ(event.blocked_authors, std::vector<std::string>{"p"});
  EXPECT_EQ(event.blocked_tags, std::vector<std::string>{"x"});
  EXPECT_FALSE(event.erase);
}

TEST_F(EventParserTest, ANullValueIsATakedownOrErasureAtTheLogsTime) {
  const InputRecord takedown = parse(Topic::kItems, "a", std::nullopt);
  const auto& item = std::get<ItemUpdate>(std::get<EventBody>(takedown.content));
  EXPECT_TRUE(item.deleted);
  EXPECT_EQ(item.item_id, "a");
  EXPECT_EQ(takedown.time_ms, kLogTime);
  const InputRecord erasure = parse(Topic::kUsers, "u", std::nullopt);
  const auto& user = std::get<UserUpdate>(std::get<EventBody>(erasure.content));
  EXPECT_TRUE(user.erase);
  EXPECT_EQ(user.time_ms, kLogTime);
  expect_rejected(Topic::kClicks, "u", std::nullopt, RejectReason::kWrongType, "null value");
  expect_rejected(Topic::kUsers, std::nullopt, std::nullopt, RejectReason::kWrongPartition, "key");
  expect_rejected(Topic::kUsers, std::string("\xff", 1), std::nullopt, RejectReason::kInvalidValue,
                  "UTF-8");
  expect_rejected(Topic::kItems, std::string(129, 'x'), std::nullopt, RejectReason::kIdTooLong,
                  "129");
}

TEST_F(EventParserTest, DeletedAndEraseTakeTheirOwnTimeOrTheLogs) {
  EXPECT_EQ(parsed<ItemUpdate>(Topic::kItems, "a",
                               R"({"item_id":"a","deleted":true,"timestamp":1650812741436})")
                .time_ms,
            1650812741436);
  const auto item = parsed<ItemUpdate>(Topic::kItems, "a", R"({"item_id":"a","deleted":true})");
  EXPECT_TRUE(item.deleted);
  EXPECT_EQ(item.time_ms, kLogTime);
  const auto user = parsed<UserUpdate>(Topic::kUsers, "u", R"({"user_id":"u","erase":true})");
  EXPECT_TRUE(user.erase);
  EXPECT_EQ(user.time_ms, kLogTime);
  expect_rejected(Topic::kItems, "a", R"({"item_id":"a","deleted":false})",
                  RejectReason::kMissingField, "timestamp");
}

TEST_F(EventParserTest, TimesAreMillisecondsOrIso8601) {
  expect_time("1650812741436", 1650812741436);
  expect_time("\"1650812741436\"", 1650812741436);
  expect_time("1650812741436.9", 1650812741436);
  expect_time("1.650812741436e12", 1650812741436);
  expect_time("\"2022-04-24T17:05:41.436+02:00\"", 1650812741436);
  const auto reject = [&](const std::string& json, RejectReason reason, const std::string& detail) {
    expect_click_rejected("\"timestamp\":" + json, reason, detail);
  };
  reject("1650812741", RejectReason::kTimeTooSmall, "timestamp: expected at least 100000000000");
  reject("\"1650812741\"", RejectReason::kTimeTooSmall, "1650812741: is it in seconds?");
  reject("-5", RejectReason::kInvalidValue, "not negative, got -5");
  reject("\"2022-02-30T00:00:00Z\"", RejectReason::kInvalidValue, "2022-02-30");
  reject("\"2022-04-24T15:05:41\"", RejectReason::kInvalidValue, "with zone");
  reject("\"\"", RejectReason::kInvalidValue, "timestamp");
  reject("18446744073709551615", RejectReason::kInvalidValue, "18446744073709551615");
  reject("184467440737095516150", RejectReason::kInvalidValue, "184467440737095516150");
  reject("\"99999999999999999999999\"", RejectReason::kInvalidValue, "9999");
  reject("1e300", RejectReason::kInvalidValue, "year 10000");
  reject("true", RejectReason::kWrongType, "got true");
  reject("[1650812741436]", RejectReason::kWrongType, "got [1650812741436]");
  reject("null", RejectReason::kMissingField, "timestamp");
}

TEST_F(EventParserTest, TimesInTheFutureAreRefusedByTheWallClockOnly) {
  const std::string late = std::to_string(kNow + 10 * 60 * 1000 + 1);
  const std::string edge = std::to_string(kNow + 10 * 60 * 1000);
  expect_time(edge, kNow + 10 * 60 * 1000);
  expect_click_rejected("\"timestamp\":" + late, RejectReason::kTimeInFuture, late);
  ParserConfig replay;
  replay.check_future = false;
  EventParser lenient(replay, clock_);
  EXPECT_TRUE(lenient.parse_event(
      Topic::kClicks, R"({"user_id":"u","item_id":"a","timestamp":)" + late + "}", kNow));
}

TEST_F(EventParserTest, WhatIsNotJsonIsRejected) {
  for (const std::string& text :
       {std::string(), std::string("{"), std::string("{\"user_id\":\"u\"} x"), std::string("nul"),
        std::string(R"({"user_id":"u","item_id":"a","timestamp":NaN})"),
        std::string(R"({"user_id":"u","item_id":"a","timestamp":01650812741436})"),
        std::string("{\"user_id\":\"u\",\"item_id\":\"a\xff\",\"timestamp\":1650812741436}"),
        std::string("{\"user_id\":\"u\",\"item_id\":\"a\0\",\"timestamp\":1650812741436}", 55),
        std::string(R"({"user_id":"u","item_id":"a","timestamp":1650812741436,"x":tru})"),
        std::string(R"({"user_id":"u","item_id":"\ud800","timestamp":1650812741436})"),
        std::string(100'000, '[')}) {
    expect_rejected(Topic::kClicks, "u", text, RejectReason::kNotJson, "not JSON");
  }
  for (const char* text : {"[]", "\"text\"", "1", "null", "true"}) {
    expect_rejected(Topic::kClicks, "u", text, RejectReason::kWrongType, "expected a JSON object");
  }
}

TEST_F(EventParserTest, IdsAreStringsOrIntegersOfBoundedLength) {
  const std::string rest = R"(,"item_id":"a","timestamp":1650812741436})";
  const std::string longest(128, 'x');
  EXPECT_EQ(
      parsed<Action>(Topic::kClicks, longest, "{\"user_id\":\"" + longest + "\"" + rest).user_id,
      longest);
  EXPECT_EQ(parsed<Action>(Topic::kClicks, "-5", "{\"user_id\":-5" + rest).user_id, "-5");
  EXPECT_EQ(parsed<Action>(Topic::kClicks, "18446744073709551615",
                           "{\"user_id\":18446744073709551615" + rest)
                .user_id,
            "18446744073709551615");
  EXPECT_EQ(parsed<Action>(Topic::kClicks, "123456789012345678901234",
                           "{\"user_id\":123456789012345678901234" + rest)
                .user_id,
            "123456789012345678901234");
  const auto reject = [&](const std::string& json, RejectReason reason, const std::string& detail) {
    expect_rejected(Topic::kClicks, "u", "{\"user_id\":" + json + rest, reason, detail);
  };
  reject("\"" + longest + "y\"", RejectReason::kIdTooLong, "user_id: expected at most 128 bytes");
  reject("\"\"", RejectReason::kInvalidValue, "user_id");
  reject("1.5", RejectReason::kWrongType, "got 1.5");
  reject("1e400", RejectReason::kWrongType, "1e400");
  reject("{}", RejectReason::kWrongType, "got {}");
  reject("\"a\\u0000b\"", RejectReason::kInvalidValue, "NUL");
  reject("null", RejectReason::kMissingField, "user_id: missing");
}

TEST_F(EventParserTest, FieldsOfTheWrongTypeAreNamed) {
  const std::string time = "\"timestamp\":1650812741436,";
  expect_click_rejected(time + "\"value\":\"3\"", RejectReason::kWrongType, "value: expected a");
  expect_click_rejected(time + "\"type\":[]", RejectReason::kWrongType, "type: expected a string");
  const auto reject_item = [&](const std::string& fields, RejectReason reason,
                               const std::string& detail) {
    expect_rejected(Topic::kItems, "a", "{\"item_id\":\"a\"," + time + fields + "}", reason,
                    detail);
  };
  reject_item(R"("tags":"sport")", RejectReason::kWrongType, "tags: expected an array");
  reject_item(R"("tags":["a",null])", RejectReason::kWrongType, "tags[1]: expected a string");
  reject_item(R"("tags":[""])", RejectReason::kInvalidValue, "tags[0]");
  reject_item(R"("numeric":[1])", RejectReason::kWrongType, "numeric: expected an object");
  reject_item(R"("numeric":{"d":"1"})", RejectReason::kWrongType, "numeric.d: expected a number");
  reject_item(R"("numeric":{"d":true})", RejectReason::kWrongType, "numeric.d");
  reject_item(R"("hidden":1)", RejectReason::kWrongType, "hidden: expected true or false, got 1");
  reject_item(R"("title":5)", RejectReason::kWrongType, "title: expected a string");
  reject_item(R"("published_at":5)", RejectReason::kTimeTooSmall, "published_at");
  reject_item(R"("topic":"users")", RejectReason::kInvalidValue, "topic: expected \"items\"");
}

TEST_F(EventParserTest, SlatesAreNeitherEmptyNorTooLong) {
  const auto slate = [](const std::string& items) {
    return R"({"impression_id":"i","user_id":"u","timestamp":1650812741436,"items":)" + items + "}";
  };
  const auto reject = [&](const std::string& items, RejectReason reason,
                          const std::string& detail) {
    expect_rejected(Topic::kImpressions, "u", slate(items), reason, detail);
  };
  reject("[]", RejectReason::kEmptyItems, "items");
  reject("null", RejectReason::kMissingField, "items");
  reject("\"a\"", RejectReason::kWrongType, "items: expected an array");
  reject("[1.5]", RejectReason::kWrongType, "items[0]");
  reject(R"([{"position":1}])", RejectReason::kMissingField, "items[0].item_id");
  reject(R"(["b",{"item_id":"a","position":-1}])", RejectReason::kInvalidValue,
         "items[1].position");
  reject(R"([{"item_id":"a","propensity":0}])", RejectReason::kInvalidValue, "items[0].propensity");
  reject(R"([{"item_id":"a","propensity":1.1}])", RejectReason::kInvalidValue, "got 1.1");
  std::string many = "[0";
  for (int i = 1; i < 500; ++i) many += "," + std::to_string(i);
  EXPECT_EQ(parsed<Impression>(Topic::kImpressions, "u", slate(many + "]")).items.size(), 500U);
  reject(many + ",500]", RejectReason::kTooManyItems, "at most 500 items (items_max), got 501");
}

TEST_F(EventParserTest, AScoreOfMinusZeroIsZero) {
  const auto parsed =
      parser_.parse_event(Topic::kImpressions,
                          R"({"impression_id":"i","user_id":"u","timestamp":1650812741436,
          "items":[{"item_id":"a","score":-0.0}]})",
                          kNow);
  ASSERT_TRUE(parsed) << parsed.error().detail;
  const auto score = std::get<Impression>(parsed->body).items[0].score;
  ASSERT_TRUE(score);
  EXPECT_EQ(*score, 0.0);
  EXPECT_FALSE(std::signbit(*score)) << "written as an event again it would change";
}

TEST_F(EventParserTest, AnItemListedTwiceKeepsItsFirstPlaceAndIsCounted) {
  const InputRecord record = parse(Topic::kImpressions, "u",
                                   R"({"impression_id":"i","user_id":"u","timestamp":1650812741436,
          "items":["a",{"item_id":"b","score":1},{"item_id":"b","score":2},"a","c"]})");
  const auto& event = std::get<Impression>(std::get<EventBody>(record.content));
  ASSERT_EQ(event.items.size(), 3U);
  EXPECT_EQ(event.items[1].score, 1.0);
  EXPECT_EQ(event.items[2].item_id, "c");
  EXPECT_EQ(record.repeated_items, 2U);
}

TEST_F(EventParserTest, UnknownFieldsAreCountedNotRefused) {
  const InputRecord record =
      parse(Topic::kImpressions, "u",
            R"({"impression_id":"i","user_id":"u","timestamp":1650812741436,"topic":"impressions",
          "x":1e999,"y":{"z":[99999999999999999999999]},"items":[{"item_id":"a","w":0}]})");
  EXPECT_TRUE(std::holds_alternative<EventBody>(record.content));
  EXPECT_EQ(record.unknown_fields, 3U);
}

TEST_F(EventParserTest, KeyAndPartitionMustBelongToTheUser) {
  const std::string click = R"({"user_id":"u","item_id":"a","timestamp":1650812741436})";
  expect_rejected(Topic::kClicks, std::nullopt, click, RejectReason::kWrongPartition, "key");
  expect_rejected(Topic::kClicks, "v", click, RejectReason::kWrongPartition,
                  "key: expected the user_id \"u\", got \"v\"");
  LogRecord record;
  const Partition right = partition_of("u", kPartitions);
  record.source = {Topic::kClicks, (right + 1) % kPartitions};
  record.key = "u";
  record.value = click;
  const InputRecord wrong = parser_.parse(record, kPartitions);
  ASSERT_TRUE(std::holds_alternative<Rejection>(wrong.content));
  EXPECT_EQ(std::get<Rejection>(wrong.content).reason, RejectReason::kWrongPartition);
  const std::string item = R"({"item_id":"a","timestamp":1650812741436})";
  expect_rejected(Topic::kItems, "b", item, RejectReason::kWrongPartition, "the item_id \"a\"");
  record.source = {Topic::kItems, 5};  // items may lie in any partition
  record.key = "a";
  record.value = item;
  EXPECT_TRUE(std::holds_alternative<EventBody>(parser_.parse(record, kPartitions).content));
}

TEST_F(EventParserTest, KeepsWhatDeadLettersNeed) {
  const std::string broken = "{\"user_id\":";
  const InputRecord record = parse(Topic::kClicks, "u", broken);
  EXPECT_EQ(record.payload, broken);
  EXPECT_EQ(record.hash, base::xxh3_64(broken));
  EXPECT_EQ(record.offset, 7);
  EXPECT_EQ(record.source.topic, Topic::kClicks);
}

TEST_F(EventParserTest, MessagesOverTheLimitAreRejectedByItsName) {
  ParserConfig config;
  config.message_bytes_max = 100;
  EventParser parser(config, clock_);
  const auto result = parser.parse_event(Topic::kClicks, std::string(101, ' '), kNow);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().reason, RejectReason::kTooLarge);
  EXPECT_NE(result.error().detail.find("message_bytes_max"), std::string::npos);
}

TEST_F(EventParserTest, TaggedEventsNameTheirTopic) {
  const auto event = parser_.parse_tagged_event(
      R"({"user_id":"u","item_id":"a","timestamp":1650812741436,"topic":"clicks"})", kNow);
  ASSERT_TRUE(event);
  EXPECT_TRUE(std::holds_alternative<Action>(event->body));
  EXPECT_EQ(event->unknown_fields, 0U);
  const auto reason = [&](const std::string& json) {
    const auto result = parser_.parse_tagged_event(json, kNow);
    return result ? "none" : reject_reason_name(result.error().reason);
  };
  EXPECT_EQ(reason(R"({"user_id":"u"})"), "missing_field");
  EXPECT_EQ(reason(R"({"topic":"examples"})"), "invalid_value");
  EXPECT_EQ(reason(R"({"topic":"requests"})"), "invalid_value");
  EXPECT_EQ(reason(R"({"topic":"nothing"})"), "invalid_value");
  EXPECT_EQ(reason(R"({"topic":5})"), "wrong_type");
}

TEST_F(EventParserTest, OneFaultDoesNotSpoilTheNextRecord) {
  expect_rejected(Topic::kClicks, "u", "{", RejectReason::kNotJson, "");
  expect_time("1650812741436", 1650812741436);
}

TEST_F(EventParserTest, ReadsServedRequestsAndLeavesOutWhatIsForPeople) {
  const auto request = parsed<ServedRequest>(
      Topic::kRequests, "u",
      R"({"request_id":"r","user_id":"u","timestamp":1650812741436,"model_version":3,)"
      R"("items":[{"item_id":"a","context":[1]}],"inputs":"AP9h"})");
  EXPECT_EQ(request.request_id, "r");
  EXPECT_EQ(request.time_ms, 1650812741436);
  EXPECT_EQ(request.inputs, std::string("\0\xff"
                                        "a",
                                        3));
  EXPECT_EQ(event_json(request),
            R"({"request_id":"r","user_id":"u","timestamp":1650812741436,"inputs":"AP9h"})");
  EXPECT_EQ(event_topic(request), Topic::kRequests);
  const std::string head = R"({"request_id":"r","user_id":"u","timestamp":1650812741436)";
  EXPECT_EQ(parsed<ServedRequest>(Topic::kRequests, "u", head + "}").inputs, "");
  expect_rejected(Topic::kRequests, "u", head + R"(,"inputs":"no base64"})",
                  RejectReason::kInvalidValue, "inputs");
  expect_rejected(Topic::kRequests, "u", R"({"user_id":"u","timestamp":1650812741436})",
                  RejectReason::kMissingField, "request_id");
  expect_rejected(Topic::kRequests, "other", head + "}", RejectReason::kWrongPartition, "user_id");
  EXPECT_FALSE(parser_.parse_tagged_event(R"({"topic":"requests",)" + head.substr(1) + "}", kNow))
      << "publishers do not write them";
}

TEST_F(EventParserTest, WritersAndParserAgree) {
  for (
      const char* json : {
          R"({"topic":"impressions","impression_id":"i\"\\\n\u0001","user_id":"ü","timestamp":1650812741436,"items":["a",{"item_id":"b","position":3,"score":0.1,"propensity":1e-07}],"request_id":"r","surface":"s"})",
          R"({"topic":"clicks","user_id":"u","item_id":"a","timestamp":1650812741436,"type":"like","value":-12.5,"impression_id":"i","event_id":"e"})",
          R"({"topic":"items","item_id":"a","timestamp":1650812741436,"deleted":true,"hidden":true,"published_at":1650812741430,"expires_at":1650812741439,"author_id":"p","tags":["x","y"],"numeric":{"a\tb":1,"d":2.5},"title":"t","url":"u","image_url":"i","language":"de"})",
          R"({"topic":"users","user_id":"u","timestamp":1650812741436,"erase":true,"segment":"s","blocked_authors":["p"],"blocked_tags":["x"]})",
      }) {
    const auto event = parser_.parse_tagged_event(json, kNow);
    ASSERT_TRUE(event) << event.error().detail;
    EXPECT_EQ(event_json(event->body, JsonForm::kTagged), json);
    const auto again = parser_.parse_event(event_topic(event->body), event_json(event->body), kNow);
    ASSERT_TRUE(again);
    EXPECT_EQ(event_json(again->body, JsonForm::kTagged), json);
  }
}

TEST(ParserConfig, NamesTheBadField) {
  ParserConfig config;
  EXPECT_TRUE(config.validate());
  config.items_max = 0;
  ASSERT_FALSE(config.validate());
  EXPECT_NE(config.validate().error().message.find("items_max"), std::string::npos);
}

}  // namespace
}  // namespace sirenfeed::ingest
