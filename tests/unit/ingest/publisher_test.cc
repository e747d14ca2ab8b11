#include "ingest/publisher.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "tests/fakes/memory_log.h"

namespace sirenfeed::ingest {
namespace {

using namespace std::chrono_literals;

/// Records made up front.
class ListReader final : public ReplayReader {
 public:
  explicit ListReader(std::size_t clicks) : clicks_(clicks) {}
  base::Result<std::optional<ReplayRecord>> next() override {
    if (next_ > clicks_) return std::nullopt;
    const std::size_t i = next_++;
    if (i == 0) return ReplayRecord{Topic::kItems, "a", "{}", kStart};
    if (fail_at == i) return base::fail(base::ErrorCode::kDecode, "e.ndjson:{}: broken", i);
    return ReplayRecord{Topic::kClicks, "u" + std::to_string(i % 17), std::to_string(i),
                        kStart + static_cast<base::UnixMs>(i) * step_ms};
  }
  std::uint64_t bytes_read() const override { return next_; }
  std::uint64_t bytes_total() const override { return clicks_ + 1; }

  static constexpr base::UnixMs kStart = 1'650'000'000'000;
  base::UnixMs step_ms = 1;
  std::optional<std::size_t> fail_at;

 private:
  std::size_t clicks_;
  std::size_t next_ = 0;
};

class PublisherTest : public testing::Test {
 protected:
  PublisherTest() {
    path_ = std::filesystem::path(testing::TempDir()) /
            ("publisher_" + std::to_string(getpid()) + "_" +
             testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::create_directories(path_);
    config_.partitions = 3;
  }
  ~PublisherTest() override { std::filesystem::remove_all(path_); }

  void make_resumable(const std::string& identity = "file to log") {
    config_.resume_file = (path_ / "resume.json").string();
    config_.identity = identity;
  }
  base::Result<PublishProgress> run(ReplayReader& replay) {
    writer_ = *log_.open_writer("test");
    return publish(replay, {*writer_, &log_}, config_, progress_, stop_.get_token());
  }
  [[nodiscard]] std::vector<std::string> values(TopicPartition source) const {
    std::vector<std::string> out;
    for (const LogRecord& record : log_.records(source)) out.push_back(*record.value);
    return out;
  }
  [[nodiscard]] std::size_t clicks() const {
    std::size_t count = 0;
    for (Partition p = 0; p < 3; ++p) count += log_.records({Topic::kClicks, p}).size();
    return count;
  }

  std::filesystem::path path_;
  fakes::MemoryLog log_{3, 1000};
  std::unique_ptr<LogWriter> writer_;
  PublisherConfig config_;
  std::function<void(const PublishProgress&)> progress_;
  std::stop_source stop_;
};

TEST_F(PublisherTest, EveryRecordGoesToItsPartitionInOrder) {
  ListReader replay(100);
  const auto done = run(replay);
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_EQ(done->records, 101U);
  EXPECT_EQ(done->acknowledged, 101U);
  EXPECT_EQ(log_.records({Topic::kItems, 0}).size(), 1U);
  EXPECT_EQ(clicks(), 100U);
  for (Partition p = 0; p < 3; ++p) {
    int before = 0;
    for (const LogRecord& record : log_.records({Topic::kClicks, p})) {
      EXPECT_EQ(partition_of(*record.key, 3), p);
      EXPECT_GT(std::stoi(*record.value), before);
      before = std::stoi(*record.value);
    }
  }
}

TEST_F(PublisherTest, AnInterruptedPublishGoesOnWithoutALoss) {
  make_resumable();
  ListReader first(100);
  first.fail_at = 60;
  const auto broken = run(first);
  ASSERT_FALSE(broken);
  EXPECT_EQ(broken.error().message, "e.ndjson:60: broken");
  ASSERT_TRUE(std::filesystem::exists(*config_.resume_file));
  ListReader second(100);
  const auto done = run(second);
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_EQ(done->acknowledged, 101U);
  EXPECT_EQ(clicks(), 100U);  // none twice: all were acknowledged before the break
  EXPECT_FALSE(std::filesystem::exists(*config_.resume_file));
}

TEST_F(PublisherTest, WhatWasNotAcknowledgedIsSentAgain) {
  make_resumable();
  log_.hold_deliveries(true);
  config_.flush_wait_max = 100ms;
  ListReader first(50);
  const auto silent = run(first);
  ASSERT_FALSE(silent);
  EXPECT_EQ(silent.error().code, base::ErrorCode::kUnavailable);
  writer_.reset();
  log_.hold_deliveries(false);
  ListReader second(50);
  ASSERT_TRUE(run(second));
  EXPECT_EQ(clicks(), 50U);
}

TEST_F(PublisherTest, WhatTheLogHoldsBeyondTheResumeFileIsNotSentAgain) {
  make_resumable();
  log_.put({Topic::kClicks, 1}, "u1", "1");  // a record of somebody else, from before
  ListReader first(100);
  first.fail_at = 60;
  std::string at_start;
  config_.report_every = 0ms;
  config_.speed = 1e9;                       // reports after every record
  progress_ = [&](const PublishProgress&) {  // the file as a kill -9 would leave it
    std::ifstream file(*config_.resume_file);
    if (at_start.empty()) std::getline(file, at_start);
  };
  ASSERT_FALSE(run(first));
  EXPECT_NE(at_start.find("\"acknowledged\":0"), std::string::npos) << at_start;
  std::ofstream(*config_.resume_file) << at_start;
  for (Partition p = 0; p < 3; ++p) log_.put({Topic::kClicks, p}, "other", "between");
  ListReader second(100);
  const auto done = run(second);
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_EQ(done->acknowledged, 101U);
  EXPECT_EQ(done->resumed, 0U);
  EXPECT_EQ(done->found, 60U);
  EXPECT_EQ(clicks(), 100U + 4U);
  EXPECT_EQ(log_.records({Topic::kItems, 0}).size(), 1U);
}

TEST_F(PublisherTest, ALogThatLostRecordsIsAnotherLog) {
  make_resumable();
  std::ofstream(*config_.resume_file)
      << R"({"identity":"file to log","acknowledged":5,"offsets":{"clicks/2":4}})";
  ListReader replay(10);
  const auto refused = run(replay);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, base::ErrorCode::kInvalidArgument);
  EXPECT_NE(refused.error().message.find("clicks/2"), std::string::npos) << refused.error().message;
}

TEST_F(PublisherTest, AFailedDeliveryEndsItWithTheFirstError) {
  make_resumable();
  log_.fail_next_delivery({base::ErrorCode::kStorage, "disk full"});
  ListReader replay(50);
  const auto failed = run(replay);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, base::ErrorCode::kStorage);
  EXPECT_NE(failed.error().message.find("disk full"), std::string::npos);
  ListReader again(50);
  ASSERT_TRUE(run(again));
  EXPECT_EQ(clicks(), 50U);
}

TEST_F(PublisherTest, AResumeFileOfAnotherInputIsRefused) {
  make_resumable("a to b");
  std::ofstream(*config_.resume_file) << R"({"identity":"c to d","acknowledged":5})";
  ListReader replay(10);
  const auto refused = run(replay);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, base::ErrorCode::kInvalidArgument);
  EXPECT_NE(refused.error().message.find("c to d"), std::string::npos);
  std::ofstream(*config_.resume_file) << "{";
  EXPECT_EQ(run(replay).error().code, base::ErrorCode::kDecode);
  std::ofstream(*config_.resume_file) << R"({"identity":"a to b","acknowledged":500})";
  EXPECT_EQ(run(replay).error().code, base::ErrorCode::kInvalidArgument);
}

TEST_F(PublisherTest, RecordsInFlightAreBounded) {
  config_.unacknowledged_max = 10;
  log_.hold_deliveries(true);
  ListReader replay(1000);
  std::jthread release([&] {
    std::this_thread::sleep_for(150ms);
    log_.hold_deliveries(false);
  });
  const auto begin = std::chrono::steady_clock::now();
  const auto done = run(replay);
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_GE(std::chrono::steady_clock::now() - begin, 100ms);
  EXPECT_EQ(clicks(), 1000U);
}

TEST_F(PublisherTest, MessagesOverTheLimitAreRefusedByItsName) {
  config_.message_bytes_max = 4;
  ListReader replay(1000);
  const auto refused = run(replay);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, base::ErrorCode::kTooLarge);
  EXPECT_NE(refused.error().message.find("message_bytes_max"), std::string::npos);
  EXPECT_NE(refused.error().message.find("clicks"), std::string::npos);
}

TEST_F(PublisherTest, SpeedIsAFactorOfEventTime) {
  config_.speed = 20.0;
  config_.report_every = 1ms;
  ListReader replay(40);
  replay.step_ms = 100;  // 4 s of event time
  int reports = 0;
  progress_ = [&](const PublishProgress& progress) {
    ++reports;
    EXPECT_LE(progress.acknowledged, progress.records);
    EXPECT_EQ(progress.bytes_total, 41U);
  };
  const auto begin = std::chrono::steady_clock::now();
  ASSERT_TRUE(run(replay));
  EXPECT_GE(std::chrono::steady_clock::now() - begin, 199ms);
  EXPECT_GE(reports, 3);
}

TEST_F(PublisherTest, AStopLeavesTheResumeFile) {
  make_resumable();
  config_.speed = 0.001;
  ListReader replay(10);
  std::jthread stopper([&] {
    std::this_thread::sleep_for(50ms);
    stop_.request_stop();
  });
  const auto stopped = run(replay);
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().code, base::ErrorCode::kClosed);
  EXPECT_TRUE(std::filesystem::exists(*config_.resume_file));
}

TEST_F(PublisherTest, FingerprintsTellFilesApart) {
  const auto write = [&](const std::string& name, const std::string& text) {
    std::ofstream(path_ / name, std::ios::binary) << text;
    return (path_ / name).string();
  };
  const std::string base(200'000, 'x');
  std::string changed_end = base;
  changed_end.back() = 'y';
  const auto one = file_fingerprint(write("a", base));
  ASSERT_TRUE(one);
  EXPECT_EQ(*one, *file_fingerprint(write("a", base)));
  EXPECT_NE(*one, *file_fingerprint(write("a", changed_end)));
  EXPECT_NE(*one, *file_fingerprint(write("a", base + "x")));
  EXPECT_FALSE(file_fingerprint((path_ / "none").string()));
  EXPECT_TRUE(file_fingerprint(write("empty", "")));
}

}  // namespace
}  // namespace sirenfeed::ingest
