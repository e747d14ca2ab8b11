#pragma once
// The partitions that the ingest loop reads: opened, assigned at the state's positions, verified,
// held back when the merge is full, stopped after an error. Internal to the loop.
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "ingest/event_log.h"
#include "ingest/event_merge.h"
#include "ingest/event_parser.h"
#include "ingest/event_sink.h"
#include "ingest/ingest_loop.h"

namespace sirenfeed::ingest {

/// What is known of one input. `next_read` and `next_apply` are nullopt before its first record.
struct IngestInput {
  LogReader* reader = nullptr;
  std::optional<AppliedPosition> verify;  // the last applied record, expected to come first
  std::optional<Offset> next_read;
  std::optional<Offset> next_apply;
  bool ended_once = false;
  bool at_end = false;  // and nothing has come since
  bool paused = false;
  [[nodiscard]] bool idle() const { return at_end && next_read == next_apply; }
};

/// Threads: one, the loop's.
class IngestInputs {
 public:
  struct Parts {
    EventLog& log;
    EventSink& sink;
    EventParser& parser;
    EventMerge& merge;
    const base::SteadyClock& steady;
    const IngestProbe& probe;
  };
  IngestInputs(const IngestConfig& config, const Parts& parts, bool use_group);
  ~IngestInputs();
  IngestInputs(const IngestInputs&) = delete;
  IngestInputs& operator=(const IngestInputs&) = delete;

  /// Counts partitions, opens the readers and, without a group, assigns everything.
  base::Result<void> open();
  [[nodiscard]] bool opened() const { return reader_ != nullptr; }

  /// Reads for at most `timeout` into the merge. Errors of single partitions stop those and are no
  /// failure.
  base::Result<void> poll(std::chrono::milliseconds timeout);
  /// Pauses inputs that are full, resumes those that have drained.
  base::Result<void> regulate();
  /// Topic impressions has `now` partitions. With more than at the start users have moved between
  /// partitions: everything that is read by user is stopped, because going on would give them two
  /// histories.
  void check_partitions(Partition now);
  /// The sink has applied these.
  void applied(std::span<const InputRecord> records);

  [[nodiscard]] const std::map<TopicPartition, IngestInput>& all() const { return inputs_; }
  [[nodiscard]] const std::map<TopicPartition, base::Error>& stopped() const { return stopped_; }
  [[nodiscard]] bool has(TopicPartition source) const { return inputs_.contains(source); }
  [[nodiscard]] bool broker_lost() const { return broker_lost_; }
  [[nodiscard]] bool assigned() const { return assigned_; }
  /// Why the latest assignment failed; it is being tried again.
  [[nodiscard]] const std::optional<base::Error>& assign_error() const { return assign_error_; }
  [[nodiscard]] bool caught_up() const;
  [[nodiscard]] bool at_end() const;
  /// The co-partitioned partitions that are read, ascending.
  [[nodiscard]] std::vector<Partition> partitions() const;
  /// Everything of `partition`, and the items, was read to its end and applied.
  [[nodiscard]] bool idle(Partition partition) const;

 private:
  base::Result<Partition> count_partitions();
  void assign_partitions(std::span<const Partition> partitions);
  void revoke_partitions(std::span<const Partition> partitions);
  base::Result<void> assign(TopicPartition source);
  base::Result<void> assign_at(TopicPartition source, std::optional<Offset> offset);
  void assign_due();
  void remove(TopicPartition source);
  void stop(TopicPartition source, base::ErrorCode code, std::string_view why);

  base::Result<bool> read(LogReader& reader, std::chrono::milliseconds timeout);
  base::Result<void> partition_failed(const LogReader& reader, const base::Error& error);
  void take(LogRecord record);
  bool verified(TopicPartition source, IngestInput& input, const LogRecord& record);
  void ended(TopicPartition source);
  void position_is_gone(TopicPartition source, const AppliedPosition& position);
  [[nodiscard]] LogReader& reader_of(TopicPartition source) const;

  const IngestConfig& config_;
  const Parts parts_;
  const bool use_group_;
  const std::vector<Topic> topics_;  // that are partitioned by user
  Partition partitions_ = 0;         // of the co-partitioned topics
  std::map<TopicPartition, IngestInput> inputs_;
  std::map<TopicPartition, base::Error> stopped_;
  std::set<TopicPartition> due_;  // to be assigned again: their position could not be read
  base::SteadyTime due_at_;
  std::optional<base::Error> assign_error_;
  bool assigned_ = false;
  bool broker_lost_ = false;
  std::unique_ptr<LogReader> reader_;
  std::unique_ptr<LogReader> items_reader_;  // with a group only
};

}  // namespace sirenfeed::ingest
