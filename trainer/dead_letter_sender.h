#pragma once
// Records that are no example go to topic dead-letters; nothing passes them before they are durable
// there.
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "ingest/event_log.h"

namespace sirenfeed::trainer {

/// Threads: one. `log` outlives it.
class DeadLetterSender {
 public:
  explicit DeadLetterSender(ingest::EventLog& log) : log_(log) {}

  void add(const ingest::LogRecord& record, std::string detail);
  /// Sends what was added and waits until it is durable; on failure everything stays for the next
  /// try (so a letter may be there twice).
  base::Result<void> send();
  [[nodiscard]] bool empty() const { return unsent_.empty(); }

 private:
  struct Letter {
    ingest::Partition source = 0;
    std::string key;
    std::string json;
    base::UnixMs time_ms = 0;
  };
  base::Result<void> append_all();

  ingest::EventLog& log_;
  std::unique_ptr<ingest::LogWriter> writer_;
  std::vector<Letter> unsent_;
};

}  // namespace sirenfeed::trainer
