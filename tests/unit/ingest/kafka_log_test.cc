#include "ingest/kafka_log.h"

#include <gmock/gmock.h>

#include <atomic>
#include <mutex>

#include "ingest/reopening_writer.h"
#include "ingest/topics_admin.h"
#include "tests/fakes/memory_log.h"
#include "tests/support/mock_kafka.h"

namespace sirenfeed::ingest {
namespace {

using base::ErrorCode;
using std::chrono::milliseconds;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

constexpr TopicPartition kExamples0{Topic::kExamples, 0};
constexpr auto kPatience = std::chrono::seconds(20);
constexpr std::int16_t kProduceRequest = 0;
constexpr std::int16_t kListOffsetsRequest = 2;

class KafkaLogTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!test_support::MockKafka::kUsable) GTEST_SKIP() << "no librdkafka under this sanitizer";
  }
  std::unique_ptr<EventLog> connect() {
    auto connected = KafkaLog::connect(kafka_.config());
    EXPECT_TRUE(connected) << connected.error().message;
    return connected ? *std::move(connected) : nullptr;
  }
  base::Error refusal(const KafkaConfig& config) {
    auto connected = KafkaLog::connect(config);
    EXPECT_FALSE(connected);
    return connected ? base::Error{} : connected.error();
  }

  test_support::MockKafka kafka_{2};  // calls nothing of ours from its threads
};

TEST_F(KafkaLogTest, AMissingBrokerIsNamedWithTheWait) {
  KafkaConfig config;
  config.brokers = "127.0.0.1:1";
  config.connect_wait_max = milliseconds(300);
  const auto start = std::chrono::steady_clock::now();
  const base::Error error = refusal(config);
  EXPECT_EQ(error.code, ErrorCode::kUnavailable);
  EXPECT_THAT(error.message, HasSubstr("127.0.0.1:1"));
  EXPECT_THAT(error.message, HasSubstr("300 ms"));
  EXPECT_THAT(error.message, HasSubstr("refused"));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
}

TEST_F(KafkaLogTest, OffsetsOfAPartitionWhoseLeaderIsBeingElectedAreWaitedFor) {
  const auto log = connect();
  ASSERT_NE(log, nullptr);
  rd_kafka_mock_push_request_errors(
      kafka_.cluster(), kListOffsetsRequest, 3, RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION,
      RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION, RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION);
  const auto bounds = log->bounds(kExamples0);
  ASSERT_TRUE(bounds) << bounds.error().message;
  EXPECT_EQ(bounds->next, 0);
}

TEST_F(KafkaLogTest, AWrongPropertyIsNamedAndItsValueIsNot) {
  KafkaConfig config = kafka_.config();
  config.properties = {{"sasl.pasword", "hunter2"}};
  const base::Error error = refusal(config);
  EXPECT_EQ(error.code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(error.message, HasSubstr("sasl.pasword"));
  EXPECT_THAT(error.message, Not(HasSubstr("hunter2")));
}

TEST_F(KafkaLogTest, APropertyThatTheGuaranteesRestOnIsRefused) {
  KafkaConfig config = kafka_.config();
  config.properties = {{"enable.auto.offset.store", "true"}};
  const base::Error error = refusal(config);
  EXPECT_EQ(error.code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(error.message, HasSubstr("enable.auto.offset.store"));
}

TEST_F(KafkaLogTest, SecretsAreMasked) {
  KafkaConfig config;
  config.properties = {{"sasl.username", "feed"},
                       {"sasl.password", "hunter2"},
                       {"ssl.key.pem", "PRIVATE"},
                       {"security.protocol", "sasl_ssl"}};
  EXPECT_EQ(masked_properties(config),
            "sasl.password=*** sasl.username=feed security.protocol=sasl_ssl ssl.key.pem=***");
}

TEST_F(KafkaLogTest, APassingErrorOfTheBrokerIsRetriedWithoutLoss) {
  const auto log = connect();
  auto writer = log->open_writer("w");
  ASSERT_TRUE(writer);
  rd_kafka_mock_push_request_errors(kafka_.cluster(), kProduceRequest, 2,
                                    RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION,
                                    RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT);
  std::vector<Offset> offsets;
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE((*writer)->append(kExamples0, "k", std::to_string(i), 1,
                                  [&](auto offset) { offsets.push_back(offset.value_or(-1)); }));
  }
  ASSERT_TRUE((*writer)->flush(kPatience));
  ASSERT_EQ(offsets.size(), 100U);
  EXPECT_EQ(offsets.front(), 0);
  EXPECT_EQ(offsets.back(), 99);
}

// What the outbox relies on: after one failure nothing later gets through.
TEST_F(KafkaLogTest, AFailedDeliveryKillsTheWriterAndAllThatIsUnderWay) {
  const auto log = connect();
  auto writer = log->open_writer("outbox");
  ASSERT_TRUE(writer);
  rd_kafka_mock_push_request_errors(kafka_.cluster(), kProduceRequest, 1,
                                    RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE);
  std::mutex mutex;
  std::vector<base::Error> errors;
  int appended = 0;
  base::Result<void> last;
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (last && std::chrono::steady_clock::now() < deadline) {
    last = (*writer)->append(kExamples0, "k", "v", 1, [&](base::Result<Offset> delivered) {
      const std::scoped_lock lock(mutex);
      if (!delivered) errors.push_back(delivered.error());
    });
    if (last) ++appended;
  }
  ASSERT_FALSE(last);
  EXPECT_EQ(last.error().code, ErrorCode::kClosed);
  const auto flushed = (*writer)->flush(kPatience);
  ASSERT_FALSE(flushed);
  EXPECT_EQ(flushed.error().code, ErrorCode::kTooLarge);
  EXPECT_EQ(errors.size(), static_cast<std::size_t>(appended)) << "nothing overtook the failure";
  EXPECT_EQ(log->bounds(kExamples0)->next, 0);
}

TEST_F(KafkaLogTest, AReopeningWriterGoesOnAfterAFailure) {
  const auto log = connect();
  ReopeningWriter writer(*log, "api");
  rd_kafka_mock_push_request_errors(kafka_.cluster(), kProduceRequest, 1,
                                    RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE);
  ASSERT_TRUE(writer.append(kExamples0, "k", "lost", 1, {}));
  EXPECT_FALSE(writer.flush(kPatience));
  std::atomic<Offset> offset = -1;
  ASSERT_TRUE(
      writer.append(kExamples0, "k", "stored", 1, [&](auto o) { offset = o.value_or(-2); }));
  EXPECT_TRUE(writer.flush(kPatience));
  EXPECT_EQ(offset, 0);
}

TEST_F(KafkaLogTest, ALostBrokerIsTheReadersStateAndDelaysTheWriter) {
  const auto log = connect();
  ReaderOptions options;
  options.name = "r";
  auto reader = log->open_reader(std::move(options));
  ASSERT_TRUE((*reader)->assign(kExamples0, std::nullopt));
  auto writer = log->open_writer("w");
  ASSERT_TRUE((*writer)->append(kExamples0, "k", "a", 1, {}));
  ASSERT_TRUE((*writer)->flush(kPatience));
  const auto poll_until = [&](auto&& done) {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (std::chrono::steady_clock::now() < deadline) {
      const auto batch = (*reader)->poll(milliseconds(50));
      EXPECT_TRUE(batch) << batch.error().message;
      if (batch && done(*batch)) return true;
    }
    return false;
  };
  ASSERT_TRUE(poll_until([](const PollBatch& batch) { return !batch.at_end.empty(); }));
  rd_kafka_mock_broker_set_down(kafka_.cluster(), 1);
  ASSERT_TRUE(poll_until([](const PollBatch& batch) { return batch.broker_lost; }));
  std::atomic<int> delivered = 0;
  ASSERT_TRUE(
      (*writer)->append(kExamples0, "k", "b", 1, [&](auto o) { delivered += o ? 1 : 100; }));
  const auto flushed = (*writer)->flush(milliseconds(200));
  ASSERT_FALSE(flushed);
  EXPECT_EQ(flushed.error().code, ErrorCode::kUnavailable);
  rd_kafka_mock_broker_set_up(kafka_.cluster(), 1);
  EXPECT_TRUE((*writer)->flush(kPatience));
  EXPECT_EQ(delivered, 1);
  EXPECT_TRUE(poll_until([](const PollBatch& batch) {
    return !batch.broker_lost && !batch.records.empty() && batch.records.front().value == "b";
  }));
}

TEST_F(KafkaLogTest, AWriterEndsAtOnceWithoutABroker) {
  const auto log = connect();
  auto writer = log->open_writer("w");
  ASSERT_TRUE(log->partitions(Topic::kExamples));
  rd_kafka_mock_broker_set_down(kafka_.cluster(), 1);
  std::atomic<int> failed = 0;
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE((*writer)->append(kExamples0, "k", "v", 1, [&](auto o) { failed += o ? 0 : 1; }));
  }
  const auto start = std::chrono::steady_clock::now();
  writer->reset();
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
  EXPECT_EQ(failed, 10);
}

// librdkafka 2.0.2 aborts when a member is destroyed between joining and its first assignment.
TEST_F(KafkaLogTest, AMemberMayEndBeforeItsFirstAssignment) {
  const auto log = connect();
  constexpr std::int16_t kJoinGroup = 11, kSyncGroup = 14;
  // The mock group takes 3 s to gather its members; then its answer is late.
  for (const auto request : {kJoinGroup, kSyncGroup}) {
    rd_kafka_mock_broker_push_request_error_rtts(kafka_.cluster(), 1, request, 1,
                                                 RD_KAFKA_RESP_ERR_NO_ERROR,
                                                 request == kSyncGroup ? 2'000 : 0);
  }
  ReaderOptions options;
  options.name = "brief";
  options.group = "group";
  auto member = log->open_reader(std::move(options));
  ASSERT_TRUE(member) << member.error().message;
  for (int i = 0; i < 35; ++i) ASSERT_TRUE((*member)->poll(milliseconds(100)));
  member->reset();
}

TEST(Copartitioning, UnequalTopicsAreNamed) {
  fakes::MemoryLog log(4);
  EXPECT_EQ(check_copartitioned(log), 4);
  log.set_partitions(Topic::kClicks, 3);
  const auto unequal = check_copartitioned(log);
  ASSERT_FALSE(unequal);
  EXPECT_EQ(unequal.error().code, ErrorCode::kCorrupt);
  EXPECT_THAT(unequal.error().message, HasSubstr("clicks 3"));
  EXPECT_THAT(unequal.error().message, HasSubstr("impressions 4"));
  log.set_partitions(Topic::kClicks, 0);
  const auto missing = check_copartitioned(log);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
}

}  // namespace
}  // namespace sirenfeed::ingest
