#include "ingest/ingest_loop.h"

#include <thread>
#include <utility>

#include "base/log.h"
#include "base/mutex.h"
#include "ingest/ingest_worker.h"

namespace sirenfeed::ingest {

using base::ErrorCode;

base::Result<void> IngestConfig::validate() const {
  const auto at_least = [](auto value, auto least, const char* name) -> base::Result<void> {
    if (value >= least) return {};
    return base::fail(ErrorCode::kInvalidArgument, "{}: expected at least {}, got {}", name, least,
                      value);
  };
  SF_TRY(at_least(batch_records_max, std::size_t{1}, "batch_records_max"));
  SF_TRY(at_least(batch_bytes_max, std::size_t{1}, "batch_bytes_max"));
  SF_TRY(at_least(poll_wait.count(), 1, "poll_wait"));
  if (poll_wait > std::chrono::milliseconds(500)) {
    return base::fail(ErrorCode::kInvalidArgument, "poll_wait: expected at most 500 ms, got {}",
                      poll_wait.count());
  }
  if (idle_flush_after) SF_TRY(at_least(idle_flush_after->count(), 0, "idle_flush_after"));
  SF_TRY(at_least(idle_flush_every.count(), 1, "idle_flush_every"));
  SF_TRY(at_least(retry_wait_min.count(), 1, "retry_wait_min"));
  SF_TRY(at_least(retry_wait_max.count(), retry_wait_min.count(), "retry_wait_max"));
  SF_TRY(merge.validate());
  return parser.validate();
}

/// Keeps the last run's worker after stop(), for its state.
class IngestLoop::Runner {
 public:
  Runner(IngestConfig config, const Parts& parts) : config_(std::move(config)), parts_(parts) {}
  ~Runner() { stop(); }
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;

  base::Result<void> start() {
    base::MutexLock control(control_mutex_);
    if (thread_.joinable()) return {};
    SF_TRY(config_.validate());
    auto worker =
        std::make_shared<IngestWorker>(config_, parts_, config_.merge, config_.group.has_value());
    const auto opened = worker->open();
    if (!opened && opened.error().code != ErrorCode::kUnavailable) {
      return base::fail(opened.error());
    }
    if (!opened) base::log_warning("ingest waits for the log: {}", opened.error().message);
    set_worker(worker);
    thread_ = std::jthread([worker](const std::stop_token& stop) { worker->run(stop); });
    return {};
  }
  void stop() {
    base::MutexLock control(control_mutex_);
    if (!thread_.joinable()) return;
    thread_.request_stop();
    thread_.join();
    finish();
  }
  base::Result<void> run_until_end(AtEnd at_end) {
    base::MutexLock control(control_mutex_);
    if (thread_.joinable()) {
      return base::fail(ErrorCode::kInvalidArgument, "the loop runs on its thread already");
    }
    SF_TRY(config_.validate());
    MergeConfig merge = config_.merge;
    merge.merge_wait_max.reset();
    auto worker = std::make_shared<IngestWorker>(config_, parts_, merge, false);
    set_worker(worker);
    auto result = worker->run_until_end(at_end);
    worker.reset();
    finish();
    return result;
  }
  std::future<base::Result<void>> close_windows() {
    IngestWorker::Done done;
    auto future = done.get_future();
    if (const auto current = worker()) {
      current->post_close(std::move(done));
    } else {
      done.set_value(base::fail(ErrorCode::kClosed, "ingest is not running"));
    }
    return future;
  }
  IngestState state() const {
    base::MutexLock lock(mutex_);
    return worker_ ? worker_->state() : last_state_;
  }
  base::Result<std::uint64_t> measure_lag() {
    if (state().broker_lost) {
      return base::fail(ErrorCode::kUnavailable, "the lag is not known: no broker answers");
    }
    const auto partitions = parts_.log.partitions(Topic::kImpressions);
    const auto current = worker();
    if (partitions && current) current->post_partitions(*partitions);
    std::uint64_t lag = 0;
    for (const auto& [source, next] : state().next_offsets) {
      SF_ASSIGN(const EventLog::Bounds bounds, parts_.log.bounds(source));
      const Offset from = std::max(next, bounds.first);
      if (bounds.next > from) lag += static_cast<std::uint64_t>(bounds.next - from);
    }
    parts_.probe.lag(lag);
    return lag;
  }

 private:
  void set_worker(std::shared_ptr<IngestWorker> worker) {
    base::MutexLock lock(mutex_);
    worker_ = std::move(worker);
  }
  std::shared_ptr<IngestWorker> worker() const {
    base::MutexLock lock(mutex_);
    return worker_;
  }
  /// Lets the readers go; what was known last stays.
  void finish() {
    std::shared_ptr<IngestWorker> ended;
    base::MutexLock lock(mutex_);
    last_state_ = worker_->state();
    last_state_.running = false;
    ended.swap(worker_);
  }

  const IngestConfig config_;
  const Parts parts_;
  base::Mutex control_mutex_;  // one of start, stop, run_until_end at a time
  mutable base::Mutex mutex_;
  std::shared_ptr<IngestWorker> worker_ SF_GUARDED_BY(mutex_);
  IngestState last_state_ SF_GUARDED_BY(mutex_);
  std::jthread thread_;
};

IngestLoop::IngestLoop(IngestConfig config, const Parts& parts)
    : runner_(std::make_unique<Runner>(std::move(config), parts)) {}
IngestLoop::~IngestLoop() = default;

base::Result<void> IngestLoop::start() { return runner_->start(); }
void IngestLoop::stop() { runner_->stop(); }
base::Result<void> IngestLoop::run_until_end(AtEnd at_end) {
  return runner_->run_until_end(at_end);
}
std::future<base::Result<void>> IngestLoop::close_windows() { return runner_->close_windows(); }
IngestState IngestLoop::state() const { return runner_->state(); }
base::Result<std::uint64_t> IngestLoop::measure_lag() { return runner_->measure_lag(); }

}  // namespace sirenfeed::ingest
