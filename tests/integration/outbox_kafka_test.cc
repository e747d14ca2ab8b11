// The outbox over librdkafka's producer and a broker (its mock) that becomes too slow in the middle
// of what is sent, and refuses a record: everything leaves, and a reader that takes exactly the
// next sequence number sees each once.
#include <thread>

#include "features/outbox_relay.h"
#include "ingest/kafka_log.h"
#include "tests/support/mock_kafka.h"
#include "tests/unit/features/state_fixture.h"

namespace sirenfeed::features {
namespace {

using namespace std::chrono_literals;

constexpr std::int16_t kProduceRequest = 0;
constexpr base::UnixMs kWindow = 600'000;
constexpr int kImpressions = 300;
constexpr std::uint64_t kClosed = kImpressions - 1;  // the last window is open
constexpr ingest::TopicPartition kExamples0{ingest::Topic::kExamples, 0};

class OutboxKafkaTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!test_support::MockKafka::kUsable) GTEST_SKIP() << "librdkafka's threads under tsan";
    auto connected = ingest::KafkaLog::connect(kafka_.config());
    ASSERT_TRUE(connected) << connected.error().message;
    log_ = *std::move(connected);
    std::vector<ingest::InputRecord> records;
    for (int i = 0; i < kImpressions; ++i) {
      const std::string n = std::to_string(i);
      records.push_back(
          state_.records.of(impression_event("i" + n, "u" + n, kStart + i * (kWindow + 1), {"a"})));
    }
    state_.apply(records);
  }
  void set_answer_time(std::chrono::milliseconds time) {
    rd_kafka_mock_broker_set_rtt(kafka_.cluster(), 1, static_cast<int>(time.count()));
  }
  [[nodiscard]] ingest::Offset in_log() const {
    const auto bounds = log_->bounds(kExamples0);
    return bounds ? bounds->next : -1;
  }
  /// Sequence numbers in topic examples, in order.
  std::vector<std::uint64_t> sequences() {
    std::vector<std::uint64_t> result;
    const ingest::Offset end = in_log();
    const auto reader = log_->open_reader({.name = "check"});
    EXPECT_TRUE((*reader)->assign(kExamples0, std::nullopt));
    const auto deadline = std::chrono::steady_clock::now() + 20s;
    while (std::ssize(result) < end && std::chrono::steady_clock::now() < deadline) {
      const auto batch = (*reader)->poll(100ms);
      for (const ingest::LogRecord& record : batch->records) {
        Example example;
        EXPECT_TRUE(example.ParseFromString(record.value.value_or("")));
        result.push_back(example.sequence());
      }
    }
    return result;
  }
  void expect_each_once() {
    std::uint64_t last = 0;
    for (const std::uint64_t sequence : sequences()) {
      EXPECT_LE(sequence, last + 1) << "a later one has overtaken";
      last = std::max(last, sequence);
    }
    EXPECT_EQ(last, kClosed);
    EXPECT_EQ(state_.probe->outbox_entries.value(), 0);
  }
  static OutboxRelayConfig impatient() {
    OutboxRelayConfig config;
    config.in_flight_max = 50;
    config.flush_timeout = 300ms;
    config.retry_backoff = config.retry_backoff_max = 10ms;
    return config;
  }

  test_support::MockKafka kafka_{1};
  std::unique_ptr<ingest::EventLog> log_;
  StateUnderTest state_;
};

TEST_F(OutboxKafkaTest, AProducerThatTimesOutInTheMiddleLosesNothingAndReordersNothing) {
  OutboxRelay relay(impatient(), state_.state->outbox(), *log_, *state_.probe);
  relay.start();
  const auto deadline = std::chrono::steady_clock::now() + 20s;
  while (in_log() < 50 && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(1ms);
  }
  ASSERT_LT(in_log(), static_cast<ingest::Offset>(kClosed)) << "not the middle";
  set_answer_time(1'500ms);  // stored, and acknowledged when nobody waits any more
  while (state_.probe->outbox_resent.value() < 2 && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(10ms);
  }
  EXPECT_GE(state_.probe->outbox_resent.value(), 2U);
  set_answer_time(0ms);
  const auto drained = relay.drain(30s);
  ASSERT_TRUE(drained) << drained.error().message;
  relay.stop();
  expect_each_once();
}

TEST_F(OutboxKafkaTest, ARecordThatTheBrokerRefusesOnceIsSentAgainWithAllThatFollow) {
  rd_kafka_mock_push_request_errors(kafka_.cluster(), kProduceRequest, 3,
                                    RD_KAFKA_RESP_ERR_NO_ERROR, RD_KAFKA_RESP_ERR_NO_ERROR,
                                    RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE);
  OutboxRelay relay(impatient(), state_.state->outbox(), *log_, *state_.probe);
  relay.start();
  const auto drained = relay.drain(30s);
  ASSERT_TRUE(drained) << drained.error().message;
  relay.stop();
  EXPECT_GE(state_.probe->outbox_resent.value(), 1U);
  expect_each_once();
}

}  // namespace
}  // namespace sirenfeed::features
