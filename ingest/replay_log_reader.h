#pragma once
// A recorded input as a log, so that `evaluate` drives a file through the very same IngestLoop as
// live input: one partition 0 a topic, offsets as a publisher into empty topics would get them.
#include <memory>

#include "ingest/event_log.h"
#include "ingest/replay_reader.h"

namespace sirenfeed::ingest {

struct ReplayLogConfig {
  std::size_t poll_records_max = 1'000;
};

/// Hands out the records of one ReplayReader. All topics are at their end with every poll, except
/// the one of the poll's last record: that is exact, because the reader is in merge order, and all
/// of them are at their end together only when the file is. Threads: one.
class ReplayLogReader final : public LogReader {
 public:
  /// `replay` outlives the reader.
  ReplayLogReader(ReplayReader& replay, ReplayLogConfig config);
  /// Only from the beginning: the file cannot be entered in the middle.
  base::Result<void> assign(TopicPartition source, std::optional<Offset> offset) override;
  base::Result<void> unassign(TopicPartition source) override;
  /// Nothing of any topic is delivered while one is paused.
  base::Result<void> pause(TopicPartition source) override;
  base::Result<void> resume(TopicPartition source) override;
  base::Result<PollBatch> poll(std::chrono::milliseconds timeout) override;
  void report_position(TopicPartition /*source*/, Offset /*next_offset*/) override {}

 private:
  ReplayReader& replay_;
  const ReplayLogConfig config_;
  std::vector<TopicPartition> assigned_;
  std::vector<TopicPartition> paused_;
  std::vector<Offset> next_offsets_;  // by topic
  bool ended_ = false;
};

/// The EventLog around it: one partition a topic, one reader, no writer. Threads: one.
class ReplayLog final : public EventLog {
 public:
  explicit ReplayLog(std::unique_ptr<ReplayReader> replay, ReplayLogConfig config = {});
  [[nodiscard]] const ReplayReader& replay() const { return *replay_; }

  base::Result<Partition> partitions(Topic topic) override;
  /// Unknown before the end: kUnavailable.
  base::Result<Bounds> bounds(TopicPartition source) override;
  base::Result<std::unique_ptr<LogReader>> open_reader(ReaderOptions options) override;
  base::Result<std::unique_ptr<LogWriter>> open_writer(std::string name) override;

 private:
  std::unique_ptr<ReplayReader> replay_;
  const ReplayLogConfig config_;
  bool opened_ = false;
};

}  // namespace sirenfeed::ingest
