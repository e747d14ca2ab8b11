#include "ingest/reopening_writer.h"

#include <utility>

namespace sirenfeed::ingest {

ReopeningWriter::ReopeningWriter(EventLog& log, std::string name)
    : log_(log), name_(std::move(name)) {}

base::Result<std::shared_ptr<LogWriter>> ReopeningWriter::current() {
  base::MutexLock lock(mutex_);
  if (!writer_) {
    SF_ASSIGN(writer_, log_.open_writer(name_));
  }
  return writer_;
}

void ReopeningWriter::drop(const std::shared_ptr<LogWriter>& dead) {
  base::MutexLock lock(mutex_);
  if (writer_ == dead) writer_.reset();  // another thread may have replaced it already
}

base::Result<void> ReopeningWriter::append(TopicPartition target, std::optional<std::string> key,
                                           std::optional<std::string> value, base::UnixMs time_ms,
                                           OnDelivered on_delivered) {
  SF_ASSIGN(const std::shared_ptr<LogWriter> writer, current());
  auto appended = writer->append(target, key, value, time_ms, on_delivered);
  if (appended || appended.error().code != base::ErrorCode::kClosed) return appended;
  drop(writer);
  SF_ASSIGN(const std::shared_ptr<LogWriter> fresh, current());
  return fresh->append(target, std::move(key), std::move(value), time_ms, std::move(on_delivered));
}

base::Result<void> ReopeningWriter::flush(std::chrono::milliseconds timeout) {
  SF_ASSIGN(const std::shared_ptr<LogWriter> writer, current());
  auto flushed = writer->flush(timeout);
  if (!flushed && flushed.error().code != base::ErrorCode::kUnavailable) drop(writer);
  return flushed;
}

}  // namespace sirenfeed::ingest
