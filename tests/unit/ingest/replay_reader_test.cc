#include "ingest/replay_reader.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "ingest/event_json.h"
#include "ingest/event_parser.h"
#include "ingest/ingest_loop.h"
#include "ingest/replay_log_reader.h"
#include "tests/unit/ingest/replay_files.h"

namespace sirenfeed::ingest {
namespace {

constexpr const char* kHeader =
    "time_ms,user_id,video_id,author_id,tag,tab,is_rand,is_click,long_view,is_like,is_hate,"
    "play_time_ms,duration_ms,upload_dt\n";

class ReplayReaderTest : public ReplayFilesTest {
 protected:
  static std::string kuairand_error(const std::string& path) {
    const auto lines = read(path, ReplayFormat::kKuairand);
    return lines.empty() ? "" : lines.back();
  }
};

TEST_F(ReplayReaderTest, KuairandRowsBecomeEventsByTheConvention) {
  const std::string path = write_gzip(
      "impressions.csv.gz",
      std::string(kHeader) +
          "1650812741436,712,5239,8079479,\"39,unknown\",1,0,1,1,1,1,61802,49866,2022-04-11\n"
          "1650812742436,713,5239,8079479,39,4,0,0,0,0,0,0,49866,2022-04-11\n");
  EXPECT_EQ(
      read(path, ReplayFormat::kKuairand),
      (Strings{
          R"(1650812741436 items 5239 {"item_id":"5239","timestamp":1650812741436,"published_at":1649635200000,"author_id":"8079479","tags":["39","unknown"],"numeric":{"duration_ms":49866}})",
          R"(1650812741436 impressions 712 {"impression_id":"impressions:1","user_id":"712","timestamp":1650812741436,"items":["5239"],"surface":"1"})",
          R"(1650812742436 impressions 713 {"impression_id":"impressions:2","user_id":"713","timestamp":1650812742436,"items":["5239"],"surface":"4"})",
          R"(1650812742436 clicks 712 {"user_id":"712","item_id":"5239","timestamp":1650812742436,"type":"click","impression_id":"impressions:1","event_id":"impressions:1:click"})",
          R"(1650812803238 clicks 712 {"user_id":"712","item_id":"5239","timestamp":1650812803238,"type":"long_view","impression_id":"impressions:1","event_id":"impressions:1:long_view"})",
          R"(1650812803238 clicks 712 {"user_id":"712","item_id":"5239","timestamp":1650812803238,"type":"like","impression_id":"impressions:1","event_id":"impressions:1:like"})",
          R"(1650812803238 clicks 712 {"user_id":"712","item_id":"5239","timestamp":1650812803238,"type":"hide","impression_id":"impressions:1","event_id":"impressions:1:hide"})",
      }));
}

TEST_F(ReplayReaderTest, LongPlayIsCutAtTenMinutes) {
  const std::string path =
      write("k.csv", std::string(kHeader) + "1650812741436,u,v,a,t,1,0,0,1,0,0,786065,1,\n");
  const auto lines = read(path, ReplayFormat::kKuairand);
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_TRUE(lines[2].starts_with("1650813341436 clicks u ")) << lines[2];
  EXPECT_NE(lines[2].find("\"k:1:long_view\""), std::string::npos);
  EXPECT_EQ(lines[0].find("published_at"), std::string::npos);
}

TEST_F(ReplayReaderTest, AnItemOfTheSameMomentComesBeforeTheImpressions) {
  const std::string path = write("k.csv", std::string(kHeader) +
                                              "1650812741436,u1,v1,a,t,1,0,0,0,0,0,0,1,\n"
                                              "1650812741436,u2,v2,a,t,1,0,0,0,0,0,0,1,\n"
                                              "1650812741437,u2,v1,a,t,1,0,0,0,0,0,0,1,");
  const auto lines = read(path, ReplayFormat::kKuairand);
  ASSERT_EQ(lines.size(), 5U);
  EXPECT_NE(lines[0].find("items v1"), std::string::npos);
  EXPECT_NE(lines[1].find("items v2"), std::string::npos);
  EXPECT_NE(lines[2].find("impressions u1"), std::string::npos);
  EXPECT_NE(lines[3].find("impressions u2"), std::string::npos);
}

TEST_F(ReplayReaderTest, KuairandErrorsNameFileLineColumnAndExpectation) {
  const std::string good = std::string(kHeader) + "1650812741436,u,v,a,t,1,0,0,0,0,0,0,1,\n";
  const auto error = [&](const std::string& row) {
    return kuairand_error(write_gzip("impressions.csv.gz", good + row));
  };
  EXPECT_EQ(error("abc,u,v,a,t,1,0,0,0,0,0,0,1,\n"),
            "impressions.csv.gz:3: time_ms: expected an integer, got 'abc'");
  EXPECT_EQ(error("1650812741436,u,v,a,t,1,0,2,0,0,0,0,1,\n"),
            "impressions.csv.gz:3: is_click: expected 0 or 1, got '2'");
  EXPECT_EQ(error("1650812741436,u,v,a,t,1,0,0,0,0,0,-1,1,\n"),
            "impressions.csv.gz:3: play_time_ms: expected at least 0, got '-1'");
  EXPECT_EQ(error("1650812741436,u,w,a,t,1,0,0,0,0,0,0,1,2022-02-30\n"),
            "impressions.csv.gz:3: upload_dt: expected a date (YYYY-MM-DD), got '2022-02-30'");
  EXPECT_EQ(error("1650812741435,u,v,a,t,1,0,0,0,0,0,0,1,\n"),
            "impressions.csv.gz:3: time_ms: expected rows in time order, so at least "
            "1650812741436, got '1650812741435'");
  EXPECT_EQ(error("9223372036854775807,u,v,a,t,1,0,1,0,0,0,0,1,\n"),
            "impressions.csv.gz:3: time_ms: expected a time before the year 10000, got "
            "'9223372036854775807'");
  EXPECT_EQ(error("1650812741436,,v,a,t,1,0,0,0,0,0,0,1,\n"),
            "impressions.csv.gz:3: user_id: expected an id, got ''");
  EXPECT_TRUE(error("1650812741436,\xff,v,a,t,1,0,0,0,0,0,0,1,\n").find("UTF-8") !=
              std::string::npos);
  EXPECT_TRUE(error("1650812741436,u,v\n").starts_with("impressions.csv.gz:3: "));
  EXPECT_TRUE(
      error("1650812741436,u,v,a,\"t,1,0,0,0,0,0,0,1,\n").starts_with("impressions.csv.gz:3: "));
  const std::string no_column = kuairand_error(write("x.csv", "time_ms,user_id\n1,2\n"));
  EXPECT_TRUE(no_column.starts_with("x.csv:1: ")) << no_column;
  EXPECT_NE(no_column.find("video_id"), std::string::npos) << no_column;
}

TEST_F(ReplayReaderTest, DamagedAndMissingFilesAreNamed) {
  std::string text(kHeader);
  for (int i = 0; i < 2000; ++i) {
    text += std::to_string(1650812741436 + i) + ",u" + std::to_string(i * 7919) +
            ",v,a,t,1,0,0,0,0,0,0,1,\n";
  }
  const std::string path = write_gzip("cut.csv.gz", text);
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 100);
  const std::string cut = kuairand_error(path);
  EXPECT_TRUE(cut.starts_with("cut.csv.gz: expected a whole gzip file")) << cut;
  const auto missing = open_replay("/no/such/file.csv", ReplayFormat::kKuairand, {});
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, base::ErrorCode::kNotFound);
  EXPECT_NE(missing.error().message.find("/no/such/file.csv"), std::string::npos);
  const auto of_folder = read(folder().string(), ReplayFormat::kEvents);
  ASSERT_EQ(of_folder.size(), 1U);
  EXPECT_NE(of_folder[0].find("cannot be"), std::string::npos) << of_folder[0];
}

TEST_F(ReplayReaderTest, EventLinesPassAsTheyStandInMergeOrder) {
  const std::string item = R"({"topic":"items","item_id":"a","timestamp":1650000000001})";
  const std::string shown =
      R"({ "topic":"impressions","impression_id":"i","user_id":"u","timestamp":1650000000001,"items":["a"],"x":1})";
  const std::string click =
      R"({"topic":"clicks","user_id":"u","item_id":"a","timestamp":1650000000001})";
  const std::string gone = R"({"topic":"items","item_id":"a","deleted":true})";
  const std::string gone_then =  // it happens where it stands
      R"({"topic":"items","item_id":"a","timestamp":1650000000001,"deleted":true})";
  const std::string user = R"({"topic":"users","user_id":5,"timestamp":"2022-04-24T15:05:41Z"})";
  const std::string path = write_gzip("e.ndjson", "\xEF\xBB\xBF" + click + "\r\n" + shown + "\n\n" +
                                                      item + "\n" + gone + "\n" + user);
  EXPECT_EQ(read(path, ReplayFormat::kEvents),
            (Strings{"1650000000001 items a " + item, "1650000000001 items a " + gone_then,
                     "1650000000001 impressions u " + shown, "1650000000001 clicks u " + click,
                     "1650812741000 users 5 " + user}));
}

TEST_F(ReplayReaderTest, EventErrorsNameFileLineAndField) {
  const std::string click = R"({"topic":"clicks","user_id":"u","item_id":"a","timestamp":)";
  const auto error = [&](const std::string& line, const ReplayOptions& options = {}) {
    const std::string path = write("e.ndjson", click + "1650000000001}\n" + line + "\n");
    return read(path, ReplayFormat::kEvents, options).back();
  };
  EXPECT_TRUE(error("{").starts_with("e.ndjson:2: expected one JSON object")) << error("{");
  EXPECT_EQ(error(R"({"user_id":"u"})"), "e.ndjson:2: topic: missing");
  EXPECT_TRUE(error(click + "1650000000}").starts_with("e.ndjson:2: timestamp: expected at least"));
  EXPECT_EQ(error(click + "1650000000000}"),
            "e.ndjson:2: timestamp: expected lines in time order, got 1650000000000 after one of "
            "1650000000001");
  ReplayOptions lenient;
  lenient.order_required = false;
  EXPECT_TRUE(error(click + "1650000000000}", lenient).starts_with("1650000000001 clicks"));
  ReplayOptions tight;
  tight.line_bytes_max = 100;
  EXPECT_EQ(error(std::string(101, ' '), tight),
            "e.ndjson:2: expected at most 100 bytes (line_bytes_max)");
  const std::string path = write("t.ndjson", R"({"topic":"users","user_id":"u","erase":true})");
  EXPECT_EQ(read(path, ReplayFormat::kEvents), Strings{"t.ndjson:1: timestamp: missing"});
}

/// Checks that records arrive in merge order and counts them.
class OrderSink final : public EventSink {
 public:
  base::Result<void> apply(std::span<const InputRecord> records) override {
    for (const InputRecord& record : records) {
      EXPECT_TRUE(std::holds_alternative<EventBody>(record.content));
      const auto key = std::tuple(record.time_ms, record.source.topic, record.offset);
      EXPECT_LT(last_, key);
      last_ = key;
      EXPECT_EQ(record.offset, counts[record.source.topic]++);
    }
    return {};
  }
  base::Result<std::optional<AppliedPosition>> position(TopicPartition) override {
    return std::nullopt;
  }
  base::Result<void> idle(Partition) override { return {}; }
  base::Result<void> close_windows(Partition) override {
    ++closed;
    return {};
  }
  std::map<Topic, Offset> counts;
  int closed = 0;

 private:
  std::tuple<base::UnixMs, Topic, Offset> last_{-1, Topic::kItems, 0};
};

TEST_F(ReplayReaderTest, AFileGoesThroughTheIngestLoopInOrder) {
  std::string text(kHeader);
  for (int i = 0; i < 5000; ++i) {
    const int play = (i * 7919) % 700'000;
    text += std::to_string(1650812741436 + i * 50) + ",u" + std::to_string(i % 97) + ",v" +
            std::to_string(i % 311) + ",a,t,1,0," + (i % 2 == 0 ? "1" : "0") + "," +
            (i % 3 == 0 ? "1" : "0") + ",0,0," + std::to_string(play) + ",1,2022-04-11\n";
  }
  auto replay = open_replay(write_gzip("k.csv.gz", text), ReplayFormat::kKuairand, {});
  ASSERT_TRUE(replay);
  ReplayLog log(*std::move(replay), {.poll_records_max = 100});
  OrderSink sink;
  base::MetricsRegistry registry;
  const IngestProbe probe(registry);
  const base::EventClock clock;
  const base::SteadyClock steady;
  IngestConfig config;
  config.parser.check_future = false;
  IngestLoop loop(config, {log, sink, clock, steady, probe});
  const auto result = loop.run_until_end();
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(sink.counts[Topic::kItems], 311);
  EXPECT_EQ(sink.counts[Topic::kImpressions], 5000);
  EXPECT_EQ(sink.counts[Topic::kClicks], 2500 + 1667);
  EXPECT_EQ(sink.closed, 1);
  EXPECT_GT(log.replay().bytes_total(), 0U);
  EXPECT_EQ(log.replay().bytes_read(), log.replay().bytes_total());
}

TEST_F(ReplayReaderTest, AnErrorInTheFileEndsTheReplayWithIt) {
  auto replay = open_replay(write("k.csv", std::string(kHeader) + "x,u,v,a,t,1,0,0,0,0,0,0,1,\n"),
                            ReplayFormat::kKuairand, {});
  ASSERT_TRUE(replay);
  ReplayLog log(*std::move(replay));
  OrderSink sink;
  base::MetricsRegistry registry;
  const IngestProbe probe(registry);
  const base::EventClock clock;
  const base::SteadyClock steady;
  IngestLoop loop({}, {log, sink, clock, steady, probe});
  const auto result = loop.run_until_end();
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().message, "k.csv:2: time_ms: expected an integer, got 'x'");
}

TEST(ReplayFormat, NamesMapBothWays) {
  for (const ReplayFormat format :
       {ReplayFormat::kKuairand, ReplayFormat::kEvents, ReplayFormat::kMind,
        ReplayFormat::kMovielens, ReplayFormat::kCsv, ReplayFormat::kJsonl}) {
    EXPECT_EQ(replay_format_from_name(replay_format_name(format)), format);
  }
  EXPECT_EQ(replay_format_from_name("xml"), std::nullopt);
}

}  // namespace
}  // namespace sirenfeed::ingest
