#include "serving/applied_waiter.h"

#include <utility>

namespace sirenfeed::serving {

using base::MutexLock;
using Steady = std::chrono::steady_clock;

namespace {
/// An apply takes milliseconds; looking more often than this gains nothing.
constexpr std::chrono::milliseconds kLookEvery{2};
}  // namespace

AppliedWaiter::AppliedWaiter(const ApiConfig& config, Applied applied)
    : waits_max_(config.apply_waits_max),
      wait_max_(config.apply_wait_max),
      applied_(std::move(applied)),
      thread_([this](const std::stop_token& stop) { run(stop); }) {}

AppliedWaiter::~AppliedWaiter() { stop(); }

void AppliedWaiter::wait(ingest::TopicPartition source, ingest::Offset offset, Done done) {
  {
    MutexLock lock(mutex_);
    if (applied_ && !stopped_ && waiting_.size() < waits_max_) {
      waiting_.push_back({source, offset, Steady::now() + wait_max_, std::move(done)});
      changed_.notify_one();
      return;
    }
  }
  done(false);
}

void AppliedWaiter::stop() {
  std::vector<Waiting> left;
  {
    MutexLock lock(mutex_);
    stopped_ = true;
    left.swap(waiting_);
  }
  thread_.request_stop();
  changed_.notify_one();
  for (const Waiting& each : left) each.done(false);
  if (thread_.joinable()) thread_.join();
}

void AppliedWaiter::run(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    std::vector<Waiting> looked_at;
    {
      MutexLock lock(mutex_);
      while (waiting_.empty() && !stop.stop_requested()) lock.wait_for(changed_, kLookEvery * 100);
      looked_at.swap(waiting_);
    }
    // The callbacks run without the lock: the state's own locks are below them.
    std::vector<Waiting> go_on;
    for (Waiting& each : looked_at) {
      const bool applied = applied_(each.source, each.offset);
      if (applied || Steady::now() >= each.deadline) {
        each.done(applied);
      } else {
        go_on.push_back(std::move(each));
      }
    }
    {
      MutexLock lock(mutex_);
      if (!stopped_) {
        for (Waiting& each : go_on) waiting_.push_back(std::move(each));
        go_on.clear();
      }
    }
    for (const Waiting& each : go_on) each.done(false);
    if (!stop.stop_requested()) std::this_thread::sleep_for(kLookEvery);
  }
}

}  // namespace sirenfeed::serving
