#pragma once
// The port to the log that events come from and examples leave by. Two implementations keep one
// contract (tests/unit/ingest/event_log_contract_test.cc): Kafka (kafka_log.h) and the embedded
// durable log (embedded_log.h).
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "ingest/topic.h"

namespace sirenfeed::ingest {

/// One record as it lies in the log. A null value is a tombstone.
struct LogRecord {
  TopicPartition source;
  Offset offset = 0;
  base::UnixMs log_time_ms = 0;  // when the log (or its producer) stamped it
  std::optional<std::string> key;
  std::optional<std::string> value;
};

/// What one poll brought. `records` are in offset order within a partition.
///
/// `at_end` names every assigned partition that is neither paused nor holds further records, as
/// found by a look at the log's end that came after all `records` of this batch were received. A
/// partition is named when its end is reached, and again in every batch that brings records of
/// other partitions while it still is at its end: whoever merges partitions may apply any record of
/// this or an earlier batch as far as this partition is concerned. Not named while broker_lost.
struct PollBatch {
  std::vector<LogRecord> records;
  std::vector<TopicPartition> at_end;
  bool broker_lost = false;  // no broker answers at the moment; the reader goes on trying
};

/// Told of partitions that a consumer group gives to this member and takes from it. Called from
/// within LogReader::poll(), so on the polling thread (revocation also from the reader's
/// destructor). Partition numbers are those of topic impressions; `on_assigned` calls
/// LogReader::assign() for the partition of impressions and of every topic that goes with it, at
/// the offsets its state holds, and `on_revoked` calls unassign() for the same. An empty
/// assignment says that the group has none for it. They do not throw.
struct GroupListener {
  std::function<void(std::span<const Partition>)> on_assigned;
  std::function<void(std::span<const Partition>)> on_revoked;
};

/// Reads partitions that it was told to; a record is delivered only once it is durable in the log.
/// Threads: one at a time; a waiting poll() is left by its time-out only. Ends before its EventLog.
class LogReader {
 public:
  virtual ~LogReader() = default;
  /// Starts reading at `offset` (nullopt: the oldest retained record), also when the partition was
  /// assigned before. The offset of the next record to come is allowed. An offset that the log does
  /// not have is an error of kind kCorrupt from a later poll().
  virtual base::Result<void> assign(TopicPartition source, std::optional<Offset> offset) = 0;
  /// Nothing of `source` is delivered afterwards. kNotFound when it was not assigned (as for
  /// pause() and resume()).
  virtual base::Result<void> unassign(TopicPartition source) = 0;
  /// Stops delivering `source` until resume(): how the merge keeps its buffers bounded. A partition
  /// that is at its end when it is resumed is named in at_end again.
  virtual base::Result<void> pause(TopicPartition source) = 0;
  virtual base::Result<void> resume(TopicPartition source) = 0;
  /// Waits at most `timeout` for records or a partition's end. A broker that cannot be reached is
  /// no error here (see broker_lost). An error that concerns one partition (kCorrupt: its offset is
  /// not in the log, or the log is damaged there) names it, is returned once, and stops that
  /// partition alone: later polls go on with the others. kClosed: this reader has come to its end
  /// (another member of its group took its name), and every later poll says so.
  virtual base::Result<PollBatch> poll(std::chrono::milliseconds timeout) = 0;
  /// Makes the next poll() look at the log's ends anew and name every partition that is at its end,
  /// as if it had brought records of others: for an owner that merges several readers, whose
  /// records this one does not see.
  virtual void confirm_ends() {}
  /// For dashboards only: what the owner has applied. The state, not the log, is the truth.
  virtual void report_position(TopicPartition source, Offset next_offset) = 0;
};

/// Appends records. Threads: any. Ends before its EventLog; what is still under way then is
/// reported as kClosed and may or may not be in the log.
///
/// A writer whose delivery failed once is dead: everything of it that is under way fails too (so no
/// later record of a partition overtakes a failed one), append() answers kClosed with the first
/// error, and the owner opens another (see reopening_writer.h). The log may hold records that were
/// reported as failed, never the other way round.
class LogWriter {
 public:
  /// The offset once the record is durable, or why it is not. Does not throw, and calls nothing of
  /// the log that waits.
  using OnDelivered = std::function<void(base::Result<Offset>)>;

  virtual ~LogWriter() = default;
  /// Refused at once, without harm to the writer: kTooLarge when key and value exceed
  /// message_bytes_max; kNotFound for a topic or partition that does not exist; kUnavailable when
  /// the queue was full for longer than the configured time. Otherwise `on_delivered` (may be
  /// empty) runs exactly once, on a thread of the log; successes in append order for each
  /// partition. `time_ms` is the record's log_time_ms.
  virtual base::Result<void> append(TopicPartition target, std::optional<std::string> key,
                                    std::optional<std::string> value, base::UnixMs time_ms,
                                    OnDelivered on_delivered) = 0;
  /// Waits until everything appended so far was delivered or failed (and reported): kUnavailable
  /// when that took longer than `timeout`, the first error of a writer that is dead.
  virtual base::Result<void> flush(std::chrono::milliseconds timeout) = 0;
};

struct ReaderOptions {
  std::string name = {};  // in logs and as client id
  std::optional<std::string> group =
      {};  // set: member of this consumer group (on topic impressions)
  std::optional<std::string> member = {};  // static membership (group.instance.id)
  GroupListener listener = {};  // used with a group = {}; the embedded log assigns all partitions
  std::size_t poll_records_max = 4096;     // most records in one batch
  std::size_t poll_bytes_max = 4U << 20U;  // of keys and values; a larger record comes alone
};

/// A file that holds records of a log: its first `bytes` are durable and whole records.
struct LogFile {
  std::filesystem::path path;
  std::uint64_t bytes = 0;
  bool growing = false;  // records may be appended behind them; otherwise it never changes
};

/// A log: its topics, readers and writers. Threads: any. Outlives its readers and writers.
class EventLog {
 public:
  virtual ~EventLog() = default;
  /// kNotFound for a topic that does not exist, kUnavailable when no broker answered in time.
  [[nodiscard]] virtual base::Result<Partition> partitions(Topic topic) = 0;
  /// First retained offset and the offset that the next record will get.
  struct Bounds {
    Offset first = 0;
    Offset next = 0;
  };
  [[nodiscard]] virtual base::Result<Bounds> bounds(TopicPartition source) = 0;
  /// Where the records of `source` lie as of now, oldest first, for a backup; empty when that is
  /// not in files of this machine. Retention may remove the oldest at any time.
  [[nodiscard]] virtual base::Result<std::vector<LogFile>> files(TopicPartition /*source*/) {
    return std::vector<LogFile>();
  }
  /// The process is being stopped: from now on a question to a server that does not answer is given
  /// up within 2 s. Threads: any.
  virtual void stop_waiting() {}
  [[nodiscard]] virtual base::Result<std::unique_ptr<LogReader>> open_reader(
      ReaderOptions options) = 0;
  [[nodiscard]] virtual base::Result<std::unique_ptr<LogWriter>> open_writer(std::string name) = 0;
};

}  // namespace sirenfeed::ingest
