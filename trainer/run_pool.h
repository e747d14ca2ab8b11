#pragma once
// The runs of a prequential pass on a bounded number of threads.
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "trainer/prequential_pass.h"

namespace sirenfeed::trainer {

/// Every run takes every group of records, in order and on one thread at a time; a free thread
/// takes the run that is furthest behind. push() waits while the last run is `groups_max` behind,
/// which bounds what is kept.
///
/// Threads: push() and finish() by one caller.
class RunPool {
 public:
  enum class Kind { kExposure, kFrozen, kClosed };
  struct Record {
    Kind kind = Kind::kExposure;
    std::shared_ptr<const DecodedExample> example;
  };
  using Group = std::shared_ptr<const std::vector<Record>>;  // shared by all runs; none changes it

  RunPool(std::vector<PrequentialPass> passes, std::size_t threads, std::size_t groups_max);
  ~RunPool();
  RunPool(const RunPool&) = delete;
  RunPool& operator=(const RunPool&) = delete;

  void push(Group group) SF_EXCLUDES(mutex_);
  /// After the last push(); once. In the order of the passes.
  std::vector<PrequentialResult> finish() SF_EXCLUDES(mutex_);
  /// After finish().
  [[nodiscard]] const OnlineTrainer& trainer(std::size_t run) const;

 private:
  struct Run {
    explicit Run(PrequentialPass p) : pass(std::move(p)) {}
    // Used by the thread that has set `taken`.
    PrequentialPass pass;
    double busy_seconds = 0;
    PrequentialResult result;
    // Under the mutex.
    std::size_t next = 0;  // of all groups ever pushed
    bool taken = false;
    bool finished = false;
  };
  /// What a thread does next: a run and its group, or no group where the run is to finish.
  struct Task {
    Run* run = nullptr;
    Group group;
  };

  void work() SF_EXCLUDES(mutex_);
  [[nodiscard]] std::optional<Task> next_task() SF_REQUIRES(mutex_);
  void drop_what_all_have() SF_REQUIRES(mutex_);

  const std::size_t groups_max_;
  std::vector<Run> runs_;
  base::Mutex mutex_;
  std::deque<Group> groups_ SF_GUARDED_BY(mutex_);
  std::size_t dropped_ SF_GUARDED_BY(mutex_) = 0;  // groups before the front of groups_
  std::size_t unfinished_ SF_GUARDED_BY(mutex_);
  bool ended_ SF_GUARDED_BY(mutex_) = false;    // no group follows
  bool stopped_ SF_GUARDED_BY(mutex_) = false;  // without a result
  std::condition_variable work_;
  std::condition_variable room_;
  std::vector<std::jthread> threads_;
};

}  // namespace sirenfeed::trainer
