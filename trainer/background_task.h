#pragma once
// One job at a time beside the training thread: publishing, full files, checkpoints.
#include <condition_variable>
#include <functional>
#include <optional>
#include <thread>

#include "base/check.h"
#include "base/mutex.h"
#include "base/result.h"

namespace sirenfeed::trainer {

/// Threads: one owner calls everything; the job runs on the task's own thread. The destructor waits
/// for a job that runs. What a job writes may be read after take_result() or wait().
class BackgroundTask {
 public:
  using Job = std::function<base::Result<void>()>;

  BackgroundTask() = default;
  ~BackgroundTask();
  BackgroundTask(const BackgroundTask&) = delete;
  BackgroundTask& operator=(const BackgroundTask&) = delete;

  /// No job runs and no result waits to be taken.
  [[nodiscard]] bool idle() const;
  /// Only while idle. The thread is made for the first job.
  void start(Job job);
  /// The result of a job that has ended, once.
  [[nodiscard]] std::optional<base::Result<void>> take_result();
  /// Until no job runs.
  void wait() const;

 private:
  void run(const std::stop_token& stop);

  mutable base::Mutex mutex_;
  mutable std::condition_variable changed_;
  Job job_ SF_GUARDED_BY(mutex_);  // empty: none runs
  std::optional<base::Result<void>> result_ SF_GUARDED_BY(mutex_);
  std::jthread thread_;
};

}  // namespace sirenfeed::trainer
