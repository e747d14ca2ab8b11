#pragma once
// The durable log of a process that needs no broker: a folder of segment files (docs/FORMATS.md).
// Keeps the contract of event_log.h.
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>

#include "base/result.h"
#include "ingest/event_log.h"

namespace sirenfeed::ingest {

/// When appended records are made durable, which is when on_delivered runs and readers see them.
enum class FsyncPolicy : std::uint8_t {
  kAlways,    // as soon as the disk is free: one fsync covers what was appended meanwhile
  kInterval,  // every fsync_interval: one fsync covers what was appended meanwhile
  kNever,     // left to the operating system: survives a killed process, not a lost machine
};

struct EmbeddedLogConfig {
  std::filesystem::path dir;  // made when absent
  Partition partitions = 4;   // of every topic but items and dead-letters, which have one
  FsyncPolicy fsync = FsyncPolicy::kInterval;
  std::chrono::milliseconds fsync_interval{10};
  std::uint64_t segment_bytes = 64U << 20U;  // a partition starts a new file at this size; < 4 GiB
  /// Whole segments of a partition are dropped while the others still hold this many bytes, and
  /// when nothing was appended to them for retention_age. Never items and users: Kafka compacts
  /// those topics, and a rebuild needs them whole.
  std::uint64_t retention_bytes = 8ULL << 30U;
  std::chrono::hours retention_age{24 * 30};
  std::size_t message_bytes_max = 1'000'000;  // key and value of one record
  std::size_t queue_bytes_max = 64U << 20U;   // appended, not yet durable, over all partitions
  std::chrono::milliseconds queue_full_wait_max{5'000};
  base::Result<void> validate() const;
};

/// Threads: one of its own writes and fsyncs (group commit), runs on_delivered and wakes readers.
/// Readers see a record only after the fsync that covers it, so whatever a reader's owner stores is
/// never ahead of the log. A full disk fails the writers that were under way (kStorage) and leaves
/// the log as it was before: usable as soon as there is room.
class EmbeddedLog final : public EventLog {
 public:
  /// kLocked when another process (or another EmbeddedLog) has the folder, kStorage when it cannot
  /// be written, kCorrupt (naming file and offset) when records that were durable are damaged,
  /// kInvalidArgument when it was made with another number of partitions. A torn last record,
  /// which a crash leaves, is cut off with a log line.
  static base::Result<std::unique_ptr<EventLog>> open(const EmbeddedLogConfig& config);
  ~EmbeddedLog() override;

  base::Result<Partition> partitions(Topic topic) override;
  base::Result<Bounds> bounds(TopicPartition source) override;
  base::Result<std::vector<LogFile>> files(TopicPartition source) override;
  /// A reader with a group gets all partitions of impressions, once, in its first poll().
  base::Result<std::unique_ptr<LogReader>> open_reader(ReaderOptions options) override;
  base::Result<std::unique_ptr<LogWriter>> open_writer(std::string name) override;

  struct Impl;

 private:
  explicit EmbeddedLog(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace sirenfeed::ingest
