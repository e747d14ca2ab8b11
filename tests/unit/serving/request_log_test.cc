// Served requests of an erased user are not written after the erasure is in force.
#include "serving/request_log.h"

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "base/metrics.h"
#include "serving/request_record.h"

namespace sirenfeed::serving {
namespace {

/// Takes records while it is open; append() waits otherwise.
class GateWriter final : public ingest::LogWriter {
 public:
  base::Result<void> append(ingest::TopicPartition, std::optional<std::string> key,
                            std::optional<std::string>, base::UnixMs, OnDelivered) override {
    std::unique_lock lock(mutex_);
    ++waiting_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return open_; });
    keys_.push_back(key.value_or(""));
    return {};
  }
  base::Result<void> flush(std::chrono::milliseconds) override { return {}; }
  void open() {
    const std::scoped_lock lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  void wait_for_append() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return waiting_ > 0; });
  }
  std::vector<std::string> keys() {
    const std::scoped_lock lock(mutex_);
    return keys_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
  int waiting_ = 0;
  std::vector<std::string> keys_;
};

RequestRecord record_of(const std::string& user) {
  RequestRecord record;
  record.user_id = user;
  record.request_id = "r";
  return record;
}

TEST(RequestLog, WhatIsQueuedOfAnErasedUserIsNotWritten) {
  base::MetricsRegistry registry;
  ServingProbe probe(registry);
  GateWriter writer;
  std::atomic<bool> erased{false};
  RequestLog log({}, writer, 1, probe,
                 [&](const RequestRecord& record) { return erased && record.user_id == "gone"; });
  log.write(record_of("first"));
  writer.wait_for_append();  // in hand: the others wait behind it
  for (const char* user : {"gone", "stays", "gone"}) log.write(record_of(user));
  erased = true;
  std::thread opener([&] { writer.open(); });
  const std::size_t forgotten = log.forget("gone");  // once the one in hand is through
  opener.join();
  log.stop();
  EXPECT_EQ(writer.keys(), (std::vector<std::string>{"first", "stays"}));
  EXPECT_LE(forgotten, 2U);
  EXPECT_EQ(probe.requests_dropped.value(), 2U);
}

TEST(RequestLog, ARecordMadeBeforeTheErasureIsLeftOutHoweverLateItComes) {
  base::MetricsRegistry registry;
  ServingProbe probe(registry);
  GateWriter writer;
  writer.open();
  const auto erased = [](const RequestRecord& record) {
    return record.user_id == "gone" && record.erased_ms != base::UnixMs{5};
  };
  RequestLog log({}, writer, 1, probe, erased);
  log.write(record_of("gone"));
  RequestRecord later = record_of("gone");  // who came back
  later.erased_ms = 5;
  log.write(later);
  log.write(record_of("stays"));
  log.stop();
  EXPECT_EQ(writer.keys(), (std::vector<std::string>{"gone", "stays"}));
}

}  // namespace
}  // namespace sirenfeed::serving
