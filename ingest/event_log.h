#pragma once
// The port to the log that events come from and examples leave by. Two implementations keep one
// contract (tests/unit/ingest/event_log_contract_test.cc): Kafka (kafka_log.h) and the embedded
// durable log (embedded_log.h).
#include <chrono>
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

/// What one poll brought: records in offset order within a partition, and the partitions that were
/// read to their end by a fetch answered after the records before it.
struct PollBatch {
  std::vector<LogRecord> records;
  std::vector<TopicPartition> at_end;
  bool broker_lost = false;  // no broker answers at the moment; the reader goes on trying
};

/// Told of partitions that a consumer group gives to this member and takes from it. Called from
/// within LogReader::poll(), so on the polling thread.
struct GroupListener {
  /// Returns the offset at which each topic of the partition resumes.
  std::function<void(std::span<const Partition>)> on_assigned;
  std::function<void(std::span<const Partition>)> on_revoked;
};

/// Reads partitions that it was told to. Threads: one; stop() of its owner wakes it by time-out
/// only.
class LogReader {
 public:
  virtual ~LogReader() = default;
  /// Starts reading at `offset` (nullopt: the oldest retained record). An offset that the log does
  /// not have is an error of kind kCorrupt from the next poll().
  virtual base::Result<void> assign(TopicPartition source, std::optional<Offset> offset) = 0;
  virtual base::Result<void> unassign(TopicPartition source) = 0;
  /// Stops delivering `source` until resume(): how the merge keeps its buffers bounded.
  virtual base::Result<void> pause(TopicPartition source) = 0;
  virtual base::Result<void> resume(TopicPartition source) = 0;
  /// Waits at most `timeout` for records. kUnavailable is not an error here (see broker_lost).
  virtual base::Result<PollBatch> poll(std::chrono::milliseconds timeout) = 0;
  /// For dashboards only: what the owner has applied. The state, not the log, is the truth.
  virtual void report_position(TopicPartition source, Offset next_offset) = 0;
};

/// Appends records. Threads: any. Delivery is reported in append order for each partition.
class LogWriter {
 public:
  /// The offset once the record is durable, or why it is not.
  using OnDelivered = std::function<void(base::Result<Offset>)>;

  virtual ~LogWriter() = default;
  /// kTooLarge when the record exceeds message_bytes_max; kUnavailable when the queue is full for
  /// longer than the configured time. `on_delivered` (may be empty) runs on a thread of the log.
  virtual base::Result<void> append(TopicPartition target, std::optional<std::string> key,
                                    std::optional<std::string> value, base::UnixMs time_ms,
                                    OnDelivered on_delivered) = 0;
  /// Waits until everything appended so far was delivered or failed.
  virtual base::Result<void> flush(std::chrono::milliseconds timeout) = 0;
};

struct ReaderOptions {
  std::string name;                   // in logs and as client id
  std::optional<std::string> group;   // set: member of this consumer group (on topic impressions)
  std::optional<std::string> member;  // static membership (group.instance.id)
  GroupListener listener;             // used with a group; the embedded log assigns all partitions
};

/// A log: its topics, readers and writers. Threads: any.
class EventLog {
 public:
  virtual ~EventLog() = default;
  [[nodiscard]] virtual base::Result<Partition> partitions(Topic topic) = 0;
  /// First retained offset and the offset that the next record will get.
  struct Bounds {
    Offset first = 0;
    Offset next = 0;
  };
  [[nodiscard]] virtual base::Result<Bounds> bounds(TopicPartition source) = 0;
  [[nodiscard]] virtual base::Result<std::unique_ptr<LogReader>> open_reader(
      ReaderOptions options) = 0;
  [[nodiscard]] virtual base::Result<std::unique_ptr<LogWriter>> open_writer(std::string name) = 0;
};

}  // namespace sirenfeed::ingest
