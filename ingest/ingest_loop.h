#pragma once
// The loop that feeds the state: log → parser → merge → sink, in batches, exactly once. It owns the
// readers and decides which partitions are read from where; the state's own positions are the
// truth.
//
// Partitions: without a group all of them; with a group those the group gives to this member (topic
// impressions), together with the same partitions of clicks, users and requests. Items are always
// read whole, with a group by a reader of their own.
//
// On assignment the last applied record of every input is read again: another content, or an offset
// that the log no longer has, stops that partition (kCorrupt, naming `sirenfeed rebuild`); the
// others go on. Where retention or compaction removed just that record, nothing is missing and
// reading goes on.
//
// A sink that fails (disk full) gets the same batch again with growing pauses until it succeeds;
// reading stops by itself when the buffers are full. A broker that does not answer is waited for.
#include <chrono>
#include <cstdint>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "ingest/event_log.h"
#include "ingest/event_merge.h"
#include "ingest/event_parser.h"
#include "ingest/event_sink.h"
#include "ingest/ingest_probe.h"

namespace sirenfeed::ingest {

struct IngestConfig {
  std::string name = "sirenfeed-ingest";    // of the readers, in logs and as client id
  std::optional<std::string> group;         // nullopt: all partitions
  std::optional<std::string> member;        // static membership in the group
  bool requests = true;                     // false: topic requests is not read
  std::size_t batch_records_max = 1'000;    // most records in one apply()
  std::size_t batch_bytes_max = 4U << 20U;  // soft: a batch takes one larger record
  std::chrono::milliseconds poll_wait{20};  // for records; also bounds the latency of stop()
  std::optional<std::chrono::milliseconds> idle_flush_after{10'000};  // nullopt: off
  std::chrono::milliseconds idle_flush_every{1'000};                  // while idle
  std::chrono::milliseconds retry_wait_min{100};    // first pause after a failed apply or start
  std::chrono::milliseconds retry_wait_max{5'000};  // it doubles up to this
  MergeConfig merge;
  ParserConfig parser;
  [[nodiscard]] base::Result<void> validate() const;
};

/// A snapshot for /readyz, `top` and logs.
struct IngestState {
  bool running = false;
  bool assigned = false;     // knows its partitions (a group may have given none)
  bool caught_up = false;    // every input was read to its end since the start, and applied
  bool at_end = false;       // and is there now, with everything applied
  bool broker_lost = false;  // no broker answers at the moment
  std::uint64_t records_applied = 0;  // handed to the sink with success, rejections included
  std::uint64_t batches_applied = 0;
  std::vector<Partition> partitions;              // owned
  std::map<TopicPartition, Offset> next_offsets;  // of the next record to apply
  std::map<TopicPartition, base::Error> stopped;  // inputs that ended with an error
  std::optional<base::Error> sink_error;          // the batch is being retried
  std::optional<base::Error> input_error;         // readers or positions: being retried
};

/// Threads: start(), stop(), close_windows(), state(), measure_lag() from any; the sink is called
/// on the loop's thread alone (run_until_end: on the caller's).
class IngestLoop {
 public:
  /// Everything referred to outlives the loop.
  struct Parts {
    EventLog& log;
    EventSink& sink;
    const base::Clock& clock;  // for the check of future times
    const base::SteadyClock& steady;
    const IngestProbe& probe;
  };
  IngestLoop(IngestConfig config, const Parts& parts);
  ~IngestLoop();
  IngestLoop(const IngestLoop&) = delete;
  IngestLoop& operator=(const IngestLoop&) = delete;

  /// Starts the thread. Fails for a bad configuration and for topics with unequal partition counts
  /// (kCorrupt, naming them) or missing topics (kNotFound); a broker that does not answer
  /// is no failure. Idempotent.
  base::Result<void> start();
  /// Ends the thread within a second, after the batch in hand. Idempotent.
  void stop();

  /// Inline, for replays and rebuilds: reads all partitions of all inputs to their ends with
  /// unlimited merge wait, applies everything and, at the end of a replay, closes every window. The
  /// first failure of log or sink is returned; nothing is retried. Not together with start().
  enum class AtEnd { kCloseWindows, kLeaveWindowsOpen };
  base::Result<void> run_until_end(AtEnd at_end = AtEnd::kCloseWindows);

  /// Asks the running loop to close every window of its partitions (the end of a replayed input),
  /// once everything that lies in the log at this moment has been applied. kClosed: it stopped
  /// before.
  std::future<base::Result<void>> close_windows();

  [[nodiscard]] IngestState state() const;
  /// Records in the log that are not applied yet, asked from the log on the calling thread; sets
  /// the metric. kUnavailable at once while no broker answers. Also looks whether topics have
  /// grown, which stops what is read by user (kCorrupt, naming `sirenfeed rebuild`): users have
  /// moved to other partitions.
  base::Result<std::uint64_t> measure_lag();

 private:
  class Runner;
  std::unique_ptr<Runner> runner_;
};

}  // namespace sirenfeed::ingest
