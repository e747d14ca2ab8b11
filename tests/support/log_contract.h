#pragma once
// The contract of ingest/event_log.h as tests, run over every implementation: instantiate with
// INSTANTIATE_TEST_SUITE_P(Name, EventLogContract, testing::Values(factory)).
#include <gtest/gtest.h>

#include <functional>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ingest/event_log.h"

namespace sirenfeed::ingest {

/// One log under test: empty, three partitions a topic (items and dead-letters have one),
/// message_bytes_max = 2000.
class LogUnderTest {
 public:
  static constexpr Partition kPartitions = 3;
  static constexpr std::size_t kMessageBytesMax = 2000;

  virtual ~LogUnderTest() = default;
  virtual EventLog& log() = 0;
};

struct LogFactory {
  std::string name;
  std::function<std::unique_ptr<LogUnderTest>()> make;  // null: cannot be had on this machine
  friend std::ostream& operator<<(std::ostream& out, const LogFactory& factory) {
    return out << factory.name;
  }
};

class EventLogContract : public testing::TestWithParam<LogFactory> {
 protected:
  static constexpr auto kPollWait = std::chrono::milliseconds(200);
  static constexpr auto kPatience = std::chrono::seconds(20);

  void SetUp() override {
    under_test_ = GetParam().make();
    if (under_test_ == nullptr) GTEST_SKIP() << "no " << GetParam().name << " on this machine";
  }
  EventLog& log() { return under_test_->log(); }

  /// Appends and waits until all are durable; returns their offsets.
  std::vector<Offset> append_all(TopicPartition target, const std::vector<std::string>& values);
  std::unique_ptr<LogReader> reader(ReaderOptions options = {});

  /// What a reader brought, over several polls.
  struct Seen {
    std::map<TopicPartition, std::vector<LogRecord>> records;
    std::map<TopicPartition, int> ends;
    std::optional<base::Error> error;
    [[nodiscard]] std::vector<std::string> values(TopicPartition source) const;
    [[nodiscard]] std::size_t count() const;
  };
  /// Polls until `done` or kPatience has passed (which the caller's expectations then show).
  Seen poll_until(LogReader& reader, const std::function<bool(const Seen&)>& done);
  Seen poll_to_end(LogReader& reader, const std::vector<TopicPartition>& sources);

 private:
  std::unique_ptr<LogUnderTest> under_test_;
};

}  // namespace sirenfeed::ingest
