#pragma once
// What the state has to send: written in the batch that made it, deleted once the log has it.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "ingest/topic.h"

namespace sirenfeed::features {

/// Entries of one stream leave in sequence order.
struct OutboxStream {
  ingest::Topic topic = ingest::Topic::kExamples;  // or kDeadLetters
  ingest::Partition partition = 0;                 // examples: target; dead letters: the source's
  friend auto operator<=>(const OutboxStream&, const OutboxStream&) = default;
};

struct OutboxEntry {
  std::uint64_t sequence = 0;  // 1, 2, … within the stream and epoch
  std::string key;             // examples: user_id; dead letters: "topic/partition/offset"
  std::string value;
  base::UnixMs time_ms = 0;  // of its event; the log stamps it with the time of sending
};

/// Threads: any.
class Outbox {
 public:
  virtual ~Outbox() = default;
  /// Streams that have entries.
  [[nodiscard]] virtual base::Result<std::vector<OutboxStream>> streams() const = 0;
  /// Entries with a sequence of at least `from`, in order; at least one if there is any.
  [[nodiscard]] virtual base::Result<std::vector<OutboxEntry>> read(
      OutboxStream stream, std::uint64_t from, std::size_t entries_max,
      std::size_t bytes_max) const = 0;
  /// Deletes everything up to and including `sequence`.
  virtual base::Result<void> acknowledge(OutboxStream stream, std::uint64_t sequence) = 0;
  /// Returns when a batch with entries was committed since the last call, or after `timeout`.
  virtual void wait(std::chrono::milliseconds timeout) const = 0;
};

}  // namespace sirenfeed::features
