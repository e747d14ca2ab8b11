#pragma once
// How a publish that was killed goes on without a record lost or sent twice. The resume file says
// how many records from the first on are in the log, and for each partition the offset behind them;
// what lies there beyond (acknowledged after the file was last written, or never acknowledged) is
// read from the log itself. Internal to the publisher.
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>

#include "base/result.h"
#include "ingest/event_log.h"
#include "ingest/replay_reader.h"

namespace sirenfeed::ingest {

struct ResumePoint {
  std::uint64_t acknowledged = 0;  // records of the input that lie in the log, without a gap
  /// For each partition an offset before which everything is among those; empty: not known (HTTP).
  std::map<TopicPartition, Offset> offsets;
};

/// {"identity","acknowledged","offsets":{"clicks/0":17,…}}, replaced as a whole. Threads: one.
class ResumeFile {
 public:
  /// nullopt: keeps nothing.
  ResumeFile(std::optional<std::string> path, std::string identity)
      : path_(std::move(path)), identity_(std::move(identity)) {}

  /// nullopt: there is none. kDecode; kInvalidArgument: of another input or target.
  [[nodiscard]] base::Result<std::optional<ResumePoint>> load() const;
  [[nodiscard]] base::Result<void> save(const ResumePoint& point) const;
  void remove() const;
  [[nodiscard]] bool kept() const { return path_.has_value(); }
  [[nodiscard]] const std::string& path() const { return *path_; }

 private:
  const std::optional<std::string> path_;
  const std::string identity_;
};

/// The topics that a replay writes to, each with its partitions and their ends in `log`.
[[nodiscard]] base::Result<std::map<TopicPartition, Offset>> log_ends(EventLog& log);

/// What lies in the log behind a resume point: records of ours that need not be sent, and those of
/// others. Threads: one.
class FoundRecords {
 public:
  /// Records at most that may lie there; 16 bytes each in memory.
  static constexpr std::size_t kRecordsMax = 20'000'000;
  FoundRecords() = default;
  /// kInvalidArgument: the log is not the one that the point was made of; kTooLarge.
  static base::Result<FoundRecords> read(EventLog& log, const ResumePoint& point);

  /// The offset of a record with this key and value that was not taken before.
  std::optional<Offset> take(TopicPartition target, const ReplayRecord& record);
  [[nodiscard]] std::size_t size() const { return size_; }

 private:
  void add(const LogRecord& record);

  std::unordered_map<std::uint64_t, std::deque<Offset>> offsets_;  // by hash of place and content
  std::size_t size_ = 0;
};

}  // namespace sirenfeed::ingest
