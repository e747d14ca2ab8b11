#include <filesystem>

#include "ingest/embedded_log.h"
#include "ingest/kafka_log.h"
#include "tests/fakes/memory_log.h"
#include "tests/support/log_contract.h"
#include "tests/support/mock_kafka.h"
#include "tests/support/temp_dir.h"

namespace sirenfeed::ingest {
namespace {

class MemoryUnderTest final : public LogUnderTest {
 public:
  EventLog& log() override { return log_; }

 private:
  fakes::MemoryLog log_{kPartitions, kMessageBytesMax};
};

class EmbeddedUnderTest final : public LogUnderTest {
 public:
  explicit EmbeddedUnderTest(FsyncPolicy fsync) {
    EmbeddedLogConfig config;
    config.dir = dir_.path() / "log";
    config.partitions = kPartitions;
    config.fsync = fsync;
    config.segment_bytes = 16U << 10U;  // so that every test crosses segments
    config.retention_bytes = 1U << 30U;
    config.message_bytes_max = kMessageBytesMax;
    auto opened = EmbeddedLog::open(config);
    EXPECT_TRUE(opened) << opened.error().message;
    if (opened) log_ = *std::move(opened);
  }
  EventLog& log() override { return *log_; }

 private:
  test_support::TempDir dir_;
  std::unique_ptr<EventLog> log_;
};

LogFactory embedded(std::string name, FsyncPolicy fsync) {
  return {std::move(name), [fsync] { return std::make_unique<EmbeddedUnderTest>(fsync); }};
}

class KafkaUnderTest final : public LogUnderTest {
 public:
  KafkaUnderTest() {
    KafkaConfig config = kafka_.config();
    config.message_bytes_max = kMessageBytesMax;
    auto connected = KafkaLog::connect(config);
    EXPECT_TRUE(connected) << connected.error().message;
    if (connected) log_ = *std::move(connected);
  }
  EventLog& log() override { return *log_; }

 private:
  test_support::MockKafka kafka_{kPartitions};
  std::unique_ptr<EventLog> log_;
};

std::unique_ptr<LogUnderTest> kafka_mock() {
  if constexpr (!test_support::MockKafka::kUsable) return nullptr;
  return std::make_unique<KafkaUnderTest>();
}

INSTANTIATE_TEST_SUITE_P(
    Logs, EventLogContract,
    testing::Values(LogFactory{"Memory", [] { return std::make_unique<MemoryUnderTest>(); }},
                    embedded("EmbeddedAlways", FsyncPolicy::kAlways),
                    embedded("EmbeddedInterval", FsyncPolicy::kInterval),
                    embedded("EmbeddedNever", FsyncPolicy::kNever),
                    LogFactory{"KafkaMock", kafka_mock}),
    [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace sirenfeed::ingest
