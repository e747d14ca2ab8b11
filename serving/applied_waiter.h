#pragma once
// Waits, for many calls at once and without a thread each, until the state has applied a record.
#include <chrono>
#include <condition_variable>
#include <functional>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "ingest/topic.h"
#include "serving/config.h"

namespace sirenfeed::serving {

/// Owns one thread, which sleeps while nobody waits. Threads: any may call wait().
class AppliedWaiter {
 public:
  using Applied = std::function<bool(ingest::TopicPartition, ingest::Offset)>;
  using Done = std::function<void(bool applied)>;

  /// A null `applied` is never true.
  AppliedWaiter(const ApiConfig& config, Applied applied);
  ~AppliedWaiter();
  AppliedWaiter(const AppliedWaiter&) = delete;
  AppliedWaiter& operator=(const AppliedWaiter&) = delete;

  /// Calls `done` once: with true when the record is applied, with false after apply_wait_max, at
  /// stop(), or at once when apply_waits_max calls wait already.
  void wait(ingest::TopicPartition source, ingest::Offset offset, Done done);
  /// Idempotent.
  void stop();

 private:
  struct Waiting {
    ingest::TopicPartition source;
    ingest::Offset offset = 0;
    std::chrono::steady_clock::time_point deadline;
    Done done;
  };
  void run(const std::stop_token& stop);

  const std::size_t waits_max_;
  const std::chrono::milliseconds wait_max_;
  const Applied applied_;
  base::Mutex mutex_;
  std::condition_variable changed_;
  std::vector<Waiting> waiting_ SF_GUARDED_BY(mutex_);
  bool stopped_ SF_GUARDED_BY(mutex_) = false;
  std::jthread thread_;
};

}  // namespace sirenfeed::serving
