#pragma once
// The segments of one topic-partition of the embedded log.
#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/result.h"
#include "ingest/embedded_log.h"
#include "ingest/embedded_segment.h"

namespace sirenfeed::ingest::embedded {

/// Why a writer is dead, once it is. Threads: any.
class WriterState {
 public:
  explicit WriterState(std::string name) : name_(std::move(name)) {}
  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] bool dead() const noexcept { return dead_.load(std::memory_order_acquire); }
  void kill(const base::Error& error) SF_EXCLUDES(mutex_);
  /// The error that it died of.
  [[nodiscard]] base::Error error() const SF_EXCLUDES(mutex_);

  std::size_t under_way = 0;  // appends not yet reported; guarded by the log's queue mutex

 private:
  const std::string name_;
  std::atomic<bool> dead_{false};
  mutable base::Mutex mutex_;
  base::Error error_ SF_GUARDED_BY(mutex_);
};

/// Records on their way into one partition: frames one after the other, not yet sealed.
struct AppendBatch {
  struct Append {
    std::shared_ptr<WriterState> writer;
    std::size_t begin = 0;  // of its frame in `frames`
    std::size_t bytes = 0;
    LogWriter::OnDelivered on_delivered;
    base::Result<Offset> result = Offset{0};  // set by commit()
  };
  std::string frames;
  std::vector<Append> appends;
};

/// Threads: commit() and drop_old() from the log's one thread; find() and bounds() from any.
class PartitionLog {
 public:
  /// Opens or makes the folder of `source` below `config.dir`.
  static base::Result<std::unique_ptr<PartitionLog>> open(const EmbeddedLogConfig& config,
                                                          TopicPartition source);

  /// Writes, fsyncs as configured and publishes; sets every append's result. After a failure the
  /// file is as it was before, and the writers that had a part in it are dead.
  void commit(AppendBatch& batch);
  /// Retention: whole segments but the last.
  void drop_old();

  [[nodiscard]] EventLog::Bounds bounds() const SF_EXCLUDES(mutex_);
  [[nodiscard]] std::vector<LogFile> files() const SF_EXCLUDES(mutex_);
  /// The segment that holds `offset`; null when it is the next offset to come; kCorrupt when it is
  /// outside of bounds().
  [[nodiscard]] base::Result<std::shared_ptr<Segment>> find(Offset offset) const
      SF_EXCLUDES(mutex_);

 private:
  PartitionLog(const EmbeddedLogConfig& config, TopicPartition source);
  base::Result<void> open_segments();
  base::Result<void> open_last(const std::filesystem::path& path, Offset base);
  base::Result<File> make_segment_file(const std::filesystem::path& path, Offset base) const;
  base::Result<void> start_segment(Offset base);
  base::Result<void> append(AppendBatch& batch, std::size_t first, std::size_t last);
  base::Result<void> write_frames(std::string_view frames, Offset next);
  [[nodiscard]] std::size_t run_end(const AppendBatch& batch, std::size_t first) const;
  [[nodiscard]] bool has_room(std::size_t bytes) const;
  [[nodiscard]] std::filesystem::path segment_path(Offset base) const;

  const EmbeddedLogConfig& config_;
  const TopicPartition source_;
  const std::filesystem::path dir_;
  mutable base::Mutex mutex_;
  std::vector<std::shared_ptr<Segment>> segments_ SF_GUARDED_BY(mutex_);
  // The log's thread alone uses what follows.
  std::shared_ptr<Segment> active_;
  File file_;               // of active_
  bool dirty_end_ = false;  // a failed write may have left bytes after the durable ones
  bool failing_ = false;    // the last commit failed: logged once
};

}  // namespace sirenfeed::ingest::embedded
