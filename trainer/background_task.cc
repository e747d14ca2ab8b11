#include "trainer/background_task.h"

#include <utility>

namespace sirenfeed::trainer {

BackgroundTask::~BackgroundTask() {
  wait();
  {
    base::MutexLock lock(mutex_);
    thread_.request_stop();
  }
  changed_.notify_all();
}

bool BackgroundTask::idle() const {
  base::MutexLock lock(mutex_);
  return !job_ && !result_;
}

void BackgroundTask::start(Job job) {
  {
    base::MutexLock lock(mutex_);
    SF_CHECK(!job_ && !result_);
    job_ = std::move(job);
  }
  if (!thread_.joinable()) {
    thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
  }
  changed_.notify_all();
}

std::optional<base::Result<void>> BackgroundTask::take_result() {
  base::MutexLock lock(mutex_);
  return std::exchange(result_, std::nullopt);
}

void BackgroundTask::wait() const {
  base::MutexLock lock(mutex_);
  while (job_) lock.wait(changed_);
}

void BackgroundTask::run(const std::stop_token& stop) {
  while (true) {
    const Job* job = nullptr;
    {
      base::MutexLock lock(mutex_);
      while (!job_ && !stop.stop_requested()) lock.wait(changed_);
      if (!job_) return;
      job = &job_;
    }
    // Nobody touches job_ while it runs.
    base::Result<void> result = (*job)();
    {
      base::MutexLock lock(mutex_);
      job_ = nullptr;
      result_ = std::move(result);
    }
    changed_.notify_all();
  }
}

}  // namespace sirenfeed::trainer
