#include "app/http_log_writer.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace sirenfeed::app {
namespace {

using namespace std::chrono_literals;
using ingest::Topic;

class HttpLogWriterTest : public testing::Test {
 protected:
  base::Result<void> append(const std::string& value, Topic topic = Topic::kClicks) {
    const std::size_t i = results_.size();
    results_.emplace_back("none");
    return writer_.append({topic, 0}, "u", value, 0,
                          [this, i](base::Result<ingest::Offset> result) {
                            results_[i] = result ? std::to_string(*result) : result.error().message;
                          });
  }
  void answer(unsigned status, const std::string& body) { answers_.push_back({status, body}); }

  std::vector<std::string> bodies_;
  std::vector<HttpResponse> answers_;  // in order; afterwards no server answers
  std::vector<std::string> results_;
  HttpLogWriter writer_{
      {.batch_events_max = 3, .linger = 10s, .retry_wait_min = 1ms, .retry_wait_max = 2ms},
      [this](std::string body) -> base::Result<HttpResponse> {
        bodies_.push_back(std::move(body));
        if (bodies_.size() <= answers_.size()) {
          return answers_[bodies_.size() - 1];
        }
        return base::fail(base::ErrorCode::kUnavailable, "connection refused");
      }};
};

using Strings = std::vector<std::string>;

TEST_F(HttpLogWriterTest, EventsAreSentInBatchesWithTheirTopic) {
  answer(200, R"({"accepted":3,"refused":0,"results":[
      {"index":0,"status":"accepted","offset":7},{"index":1,"status":"accepted","offset":8},
      {"index":2,"status":"duplicate"}]})");
  answer(200, R"({"results":[{"index":0,"status":"accepted","offset":9}]})");
  ASSERT_TRUE(append(R"({"a":1})"));
  ASSERT_TRUE(append(R"( {"a":2})"));
  EXPECT_TRUE(bodies_.empty());
  ASSERT_TRUE(append(R"({"a":3})"));
  ASSERT_TRUE(append(R"({"a":4})", Topic::kItems));
  ASSERT_TRUE(writer_.flush(1s));
  EXPECT_EQ(bodies_, (Strings{"{\"topic\":\"clicks\",\"a\":1}\n{\"topic\":\"clicks\",\"a\":2}\n"
                              "{\"topic\":\"clicks\",\"a\":3}\n",
                              "{\"topic\":\"items\",\"a\":4}\n"}));
  EXPECT_EQ(results_, (Strings{"7", "8", "0", "9"}));
}

TEST_F(HttpLogWriterTest, WhatTheServerDidNotTakeIsSentAgainInOrder) {
  answer(429, R"({"status":429,"index":1,"results":[{"index":0,"status":"accepted","offset":1}]})");
  answer(503, R"({"status":503,"results":[{"index":0,"status":"unconfirmed"},
                                          {"index":1,"status":"accepted","offset":3}]})");
  answer(503, "gateway is tired");
  answer(200, R"({"results":[{"index":0,"status":"accepted","offset":4}]})");
  for (const char* value : {R"({"a":1})", R"({"a":2})", R"({"a":3})"}) ASSERT_TRUE(append(value));
  ASSERT_TRUE(writer_.flush(1s));
  ASSERT_EQ(bodies_.size(), 4U);
  EXPECT_EQ(bodies_[1], "{\"topic\":\"clicks\",\"a\":2}\n{\"topic\":\"clicks\",\"a\":3}\n");
  EXPECT_EQ(bodies_[3], "{\"topic\":\"clicks\",\"a\":2}\n");
  EXPECT_EQ(results_, (Strings{"1", "4", "3"}));
}

TEST_F(HttpLogWriterTest, ARefusedEventIsReportedWithItsReason) {
  answer(400, R"({"status":400,"results":[{"index":0,"status":"refused","reason":"missing_field",
                                           "detail":"timestamp: missing"}]})");
  ASSERT_TRUE(append("{}"));
  ASSERT_TRUE(writer_.flush(1s));
  EXPECT_EQ(results_, Strings{"refused as missing_field: timestamp: missing"});
}

TEST_F(HttpLogWriterTest, WithoutAServerTheQueueFillsAndThenSaysSo) {
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(append("{}"));
  const auto full = append("{}");
  ASSERT_FALSE(full);
  EXPECT_EQ(full.error().code, base::ErrorCode::kUnavailable);
  EXPECT_NE(full.error().message.find("connection refused"), std::string::npos);
  EXPECT_EQ(writer_.flush(5ms).error().code, base::ErrorCode::kUnavailable);
}

TEST_F(HttpLogWriterTest, AnAnswerThatIsNoneEndsIt) {
  answer(401, "who are you");
  ASSERT_TRUE(append("{}"));
  const auto flushed = writer_.flush(1s);
  ASSERT_FALSE(flushed);
  EXPECT_NE(flushed.error().message.find("401: who are you"), std::string::npos);
}

}  // namespace
}  // namespace sirenfeed::app
