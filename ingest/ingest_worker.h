#pragma once
// One run of the ingest loop: what its thread owns. Internal to the loop.
#include <atomic>
#include <future>
#include <map>
#include <optional>
#include <stop_token>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/result.h"
#include "ingest/event_merge.h"
#include "ingest/event_parser.h"
#include "ingest/ingest_inputs.h"
#include "ingest/ingest_loop.h"

namespace sirenfeed::ingest {

/// Threads: state() and post_close() from any, the rest from one.
class IngestWorker {
 public:
  using Done = std::promise<base::Result<void>>;

  /// `config` outlives the worker.
  IngestWorker(const IngestConfig& config, const IngestLoop::Parts& parts, MergeConfig merge,
               bool use_group);
  ~IngestWorker();
  IngestWorker(const IngestWorker&) = delete;
  IngestWorker& operator=(const IngestWorker&) = delete;

  base::Result<void> open() { return inputs_.open(); }
  /// Until `stop` is requested; failures are retried.
  void run(const std::stop_token& stop);
  /// Until everything is read and applied; the first failure ends it.
  base::Result<void> run_until_end(IngestLoop::AtEnd at_end);

  void post_close(Done done);
  /// How many partitions topic impressions has now, as the log says.
  void post_partitions(Partition count) { partitions_seen_ = count; }
  [[nodiscard]] IngestState state() const;

 private:
  /// A pause that doubles with every failure in a row. Says when a failure is worth a log line.
  class Backoff {
   public:
    explicit Backoff(const IngestConfig& config) : config_(config) {}
    void failed(base::SteadyTime now, std::string_view what, const base::Error& error);
    void succeeded(std::string_view what);
    [[nodiscard]] bool due(base::SteadyTime now) const { return !until_ || now >= *until_; }
    [[nodiscard]] const std::optional<base::SteadyTime>& until() const { return until_; }
    [[nodiscard]] const std::optional<base::Error>& error() const { return error_; }

   private:
    const IngestConfig& config_;
    std::chrono::milliseconds pause_{0};
    std::optional<base::SteadyTime> until_;
    std::optional<base::SteadyTime> logged_at_;
    std::optional<base::Error> error_;
  };
  /// A close_windows() that waits for the records before it.
  struct Close {
    Done done;
    std::map<TopicPartition, Offset> ends;
    base::SteadyTime taken_at;
  };

  void step(const std::stop_token& stop);
  base::Result<void> read_next();
  [[nodiscard]] std::chrono::milliseconds poll_time() const;
  base::Result<void> apply_next();
  void drop_foreign_records();
  void flush_idle();
  void serve_closes();
  [[nodiscard]] bool reached(const Close& close) const;
  base::Result<void> close_partitions();
  [[nodiscard]] bool caught_up();
  void publish_state(bool running);

  const IngestConfig& config_;
  const IngestLoop::Parts parts_;
  EventParser parser_;
  EventMerge merge_;
  std::vector<InputRecord> batch_;  // taken from the merge, not yet applied
  bool more_ = false;               // the merge had more than one batch
  std::uint64_t out_of_order_ = 0;  // as already counted
  std::uint64_t records_applied_ = 0;
  std::uint64_t batches_applied_ = 0;
  Backoff sink_backoff_;
  Backoff input_backoff_;
  std::atomic<Partition> partitions_seen_{0};
  std::map<Partition, base::SteadyTime> idle_since_;
  std::map<Partition, base::SteadyTime> flushed_at_;
  std::vector<Close> closes_;
  /// What is still to be applied of what had been read when all inputs were at their ends; nullopt:
  /// they have not been yet.
  std::optional<std::map<TopicPartition, std::optional<Offset>>> ends_;

  mutable base::Mutex mutex_;
  IngestState state_ SF_GUARDED_BY(mutex_);
  std::vector<Done> posted_ SF_GUARDED_BY(mutex_);
  bool ended_ SF_GUARDED_BY(mutex_) = false;

  IngestInputs inputs_;  // last: its readers call back into it while they end
};

}  // namespace sirenfeed::ingest
