#include "ingest/embedded_log.h"

#include <limits>
#include <utility>

#include "ingest/embedded_impl.h"

namespace sirenfeed::ingest {

base::Result<void> EmbeddedLogConfig::validate() const {
  const auto wrong = [](std::string_view field, std::string_view expected) {
    return base::fail(base::ErrorCode::kInvalidArgument, "{}: expected {}", field, expected);
  };
  constexpr std::uint64_t kFileBytesMax = std::numeric_limits<std::uint32_t>::max();
  if (dir.empty()) return wrong("dir", "a folder");
  if (partitions < 1 || partitions > 1024) return wrong("partitions", "1 to 1024");
  if (fsync_interval.count() < 0) return wrong("fsync_interval", "0 ms or more");
  if (segment_bytes < 1024) return wrong("segment_bytes", "1024 or more");
  if (message_bytes_max < 1 || message_bytes_max > (1U << 30U)) {
    return wrong("message_bytes_max", "1 to 1 GiB");
  }
  if (segment_bytes > kFileBytesMax - message_bytes_max - embedded::kFrameOverheadBytes) {
    return wrong("segment_bytes", "less than 4 GiB with message_bytes_max added");
  }
  if (retention_bytes < segment_bytes) return wrong("retention_bytes", "at least segment_bytes");
  if (retention_age.count() < 1) return wrong("retention_age", "1 hour or more");
  if (queue_bytes_max < message_bytes_max) {
    return wrong("queue_bytes_max", "at least message_bytes_max");
  }
  if (queue_full_wait_max.count() < 0) return wrong("queue_full_wait_max", "0 ms or more");
  return {};
}

EmbeddedLog::EmbeddedLog(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
EmbeddedLog::~EmbeddedLog() = default;

base::Result<std::unique_ptr<EventLog>> EmbeddedLog::open(const EmbeddedLogConfig& config) {
  SF_ASSIGN(auto impl, Impl::open(config));
  return std::unique_ptr<EventLog>(new EmbeddedLog(std::move(impl)));
}

base::Result<Partition> EmbeddedLog::partitions(Topic topic) {
  return topic == Topic::kItems || topic == Topic::kDeadLetters ? 1 : impl_->config().partitions;
}

base::Result<EventLog::Bounds> EmbeddedLog::bounds(TopicPartition source) {
  SF_ASSIGN(const embedded::PartitionLog* log, impl_->find(source));
  return log->bounds();
}

base::Result<std::vector<LogFile>> EmbeddedLog::files(TopicPartition source) {
  SF_ASSIGN(const embedded::PartitionLog* log, impl_->find(source));
  return log->files();
}

base::Result<std::unique_ptr<LogReader>> EmbeddedLog::open_reader(ReaderOptions options) {
  return embedded::make_reader(*impl_, std::move(options));
}

base::Result<std::unique_ptr<LogWriter>> EmbeddedLog::open_writer(std::string name) {
  return embedded::make_writer(*impl_, std::move(name));
}

}  // namespace sirenfeed::ingest
