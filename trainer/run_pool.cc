#include "trainer/run_pool.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>

#include "base/check.h"

namespace sirenfeed::trainer {

RunPool::RunPool(std::vector<PrequentialPass> passes, std::size_t threads, std::size_t groups_max)
    : groups_max_(groups_max),
      runs_(std::make_move_iterator(passes.begin()), std::make_move_iterator(passes.end())),
      unfinished_(runs_.size()) {
  if (threads == 0) threads = std::max(std::thread::hardware_concurrency(), 1U);
  for (std::size_t i = 0; i < std::min(threads, runs_.size()); ++i) {
    threads_.emplace_back([this] { work(); });
  }
}

RunPool::~RunPool() {
  {
    base::MutexLock lock(mutex_);
    stopped_ = true;
  }
  work_.notify_all();
}

void RunPool::push(Group group) {
  {
    base::MutexLock lock(mutex_);
    while (groups_.size() >= groups_max_) lock.wait(room_);
    groups_.push_back(std::move(group));
  }
  work_.notify_all();
}

std::vector<PrequentialResult> RunPool::finish() {
  {
    base::MutexLock lock(mutex_);
    ended_ = true;
  }
  work_.notify_all();
  for (std::jthread& thread : threads_) thread.join();
  std::vector<PrequentialResult> results;
  for (Run& run : runs_) {
    run.result.busy_seconds = run.busy_seconds;
    results.push_back(std::move(run.result));
  }
  return results;
}

const OnlineTrainer& RunPool::trainer(std::size_t run) const {
  SF_CHECK(run < runs_.size());
  return runs_[run].pass.trainer();
}

std::optional<RunPool::Task> RunPool::next_task() {
  const std::size_t end = dropped_ + groups_.size();
  Run* behind = nullptr;
  for (Run& run : runs_) {
    if (run.taken || run.finished || (run.next == end && !ended_)) continue;
    if (behind == nullptr || run.next < behind->next) behind = &run;
  }
  if (behind == nullptr) return std::nullopt;
  behind->taken = true;
  return Task{behind, behind->next < end ? groups_[behind->next - dropped_] : nullptr};
}

void RunPool::drop_what_all_have() {
  const auto behind = std::min_element(runs_.begin(), runs_.end(),
                                       [](const Run& a, const Run& b) { return a.next < b.next; });
  for (; dropped_ < behind->next; ++dropped_) groups_.pop_front();
}

void RunPool::work() {
  while (true) {
    std::optional<Task> task;
    {
      base::MutexLock lock(mutex_);
      while (!stopped_ && unfinished_ > 0 && !(task = next_task())) lock.wait(work_);
    }
    if (!task) return;
    Run& run = *task->run;
    const auto begin = std::chrono::steady_clock::now();
    if (task->group) {
      for (const Record& record : *task->group) {
        switch (record.kind) {
          case Kind::kExposure:
            run.pass.on_exposure(record.example);
            break;
          case Kind::kFrozen:
            run.pass.on_frozen(record.example);
            break;
          case Kind::kClosed:
            run.pass.on_closed(record.example);
            break;
        }
      }
    } else {
      run.result = run.pass.finish();
    }
    run.busy_seconds +=
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    {
      base::MutexLock lock(mutex_);
      run.taken = false;
      if (task->group) {
        ++run.next;
        drop_what_all_have();
      } else {
        run.finished = true;
        --unfinished_;
      }
    }
    room_.notify_one();
    work_.notify_all();
  }
}

}  // namespace sirenfeed::trainer
