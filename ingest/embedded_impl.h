#pragma once
// What the embedded log, its readers and its writers share.
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "ingest/embedded_log.h"
#include "ingest/embedded_partition.h"

namespace sirenfeed::ingest {

/// Threads: `thread_` alone commits. Lock order: none is taken while another is held.
struct EmbeddedLog::Impl {
 public:
  static base::Result<std::unique_ptr<Impl>> open(const EmbeddedLogConfig& config);
  ~Impl();

  [[nodiscard]] base::Result<embedded::PartitionLog*> find(TopicPartition source) const;
  [[nodiscard]] const EmbeddedLogConfig& config() const noexcept { return config_; }
  [[nodiscard]] std::vector<Partition> all_partitions() const;

  // Writers.
  base::Result<void> enqueue(const std::shared_ptr<embedded::WriterState>& writer,
                             TopicPartition target, const std::optional<std::string>& key,
                             const std::optional<std::string>& value, base::UnixMs time_ms,
                             LogWriter::OnDelivered on_delivered) SF_EXCLUDES(queue_mutex_);
  /// False when `writer` still had records under way at `deadline` (nullopt: waits for ever).
  bool wait_delivered(const embedded::WriterState& writer,
                      std::optional<std::chrono::steady_clock::time_point> deadline)
      SF_EXCLUDES(queue_mutex_);

  // Readers.
  [[nodiscard]] std::uint64_t commits() const SF_EXCLUDES(commit_mutex_);
  /// Waits until there was a commit after the `seen`th, at most until `deadline`.
  void wait_commit(std::uint64_t seen, std::chrono::steady_clock::time_point deadline) const
      SF_EXCLUDES(commit_mutex_);

 private:
  using Batches = std::map<TopicPartition, embedded::AppendBatch>;

  explicit Impl(EmbeddedLogConfig config);
  base::Result<void> take_folder();
  base::Result<void> check_partitions();
  base::Result<void> open_partitions();
  void run() noexcept;
  std::optional<Batches> next_batches() SF_EXCLUDES(queue_mutex_);
  [[nodiscard]] bool commit_is_due(std::chrono::steady_clock::time_point now) const
      SF_REQUIRES(queue_mutex_);
  void commit(Batches& batches);
  void report(Batches& batches) SF_EXCLUDES(queue_mutex_);

  const EmbeddedLogConfig config_;
  embedded::File lock_;
  std::map<TopicPartition, std::unique_ptr<embedded::PartitionLog>> logs_;  // fixed after open

  base::Mutex queue_mutex_;
  std::condition_variable filled_;   // wakes the log's thread
  std::condition_variable drained_;  // wakes writers that wait for room or delivery
  Batches queue_ SF_GUARDED_BY(queue_mutex_);
  std::size_t queue_bytes_ SF_GUARDED_BY(queue_mutex_) = 0;  // also of what is being committed
  std::size_t waiting_ SF_GUARDED_BY(queue_mutex_) = 0;      // for delivery: do not linger
  bool stopped_ SF_GUARDED_BY(queue_mutex_) = false;
  std::chrono::steady_clock::time_point next_commit_ SF_GUARDED_BY(queue_mutex_){};

  mutable base::Mutex commit_mutex_;
  mutable std::condition_variable committed_;
  std::uint64_t commits_ SF_GUARDED_BY(commit_mutex_) = 0;

  std::thread thread_;
};

namespace embedded {
std::unique_ptr<LogReader> make_reader(EmbeddedLog::Impl& log, ReaderOptions options);
std::unique_ptr<LogWriter> make_writer(EmbeddedLog::Impl& log, std::string name);
}  // namespace embedded

}  // namespace sirenfeed::ingest
