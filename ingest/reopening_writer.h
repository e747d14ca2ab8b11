#pragma once
// A writer for callers who do not need that no later record overtakes a failed one (POST
// /v1/events, requests): replaces the inner writer when it has died. The outbox relay is not one.
#include <memory>
#include <string>

#include "base/mutex.h"
#include "ingest/event_log.h"

namespace sirenfeed::ingest {

/// Threads: any. `log` outlives it. Records under way when the inner writer dies fail all the same.
class ReopeningWriter final : public LogWriter {
 public:
  ReopeningWriter(EventLog& log, std::string name);
  base::Result<void> append(TopicPartition target, std::optional<std::string> key,
                            std::optional<std::string> value, base::UnixMs time_ms,
                            OnDelivered on_delivered) override;
  base::Result<void> flush(std::chrono::milliseconds timeout) override;

 private:
  base::Result<std::shared_ptr<LogWriter>> current() SF_EXCLUDES(mutex_);
  void drop(const std::shared_ptr<LogWriter>& dead) SF_EXCLUDES(mutex_);

  EventLog& log_;
  const std::string name_;
  base::Mutex mutex_;
  std::shared_ptr<LogWriter> writer_ SF_GUARDED_BY(mutex_);
};

}  // namespace sirenfeed::ingest
