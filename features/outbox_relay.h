#pragma once
// Sends what the outbox holds and deletes what the log has acknowledged.
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "features/outbox.h"
#include "features/probe.h"
#include "ingest/event_log.h"

namespace sirenfeed::features {

struct OutboxRelayConfig {
  std::size_t in_flight_max = 2'048;             // entries sent and not acknowledged, a stream
  std::size_t in_flight_bytes_max = 16U << 20U;  // likewise
  std::chrono::milliseconds retry_backoff{200};  // doubles up to retry_backoff_max
  std::chrono::milliseconds retry_backoff_max{5'000};
  std::chrono::milliseconds flush_timeout{10'000};  // of one window of in-flight entries
  [[nodiscard]] base::Result<void> validate() const;
};

/// Sends in sequence order. After any failed delivery the writer is thrown away, a new one is made
/// and everything from the lowest unacknowledged entry is sent again: the topic may hold an entry
/// twice, but never out of order. Examples go to their partition; dead letters to the source's
/// partition modulo the topic's. Threads: owns one, between start() and stop().
class OutboxRelay {
 public:
  /// `log` and `outbox` outlive the relay.
  OutboxRelay(OutboxRelayConfig config, Outbox& outbox, ingest::EventLog& log,
              const FeaturesProbe& probe);
  ~OutboxRelay();
  OutboxRelay(const OutboxRelay&) = delete;
  OutboxRelay& operator=(const OutboxRelay&) = delete;

  void start();
  void stop();  // idempotent; entries not yet acknowledged stay in the outbox
  /// Waits until the outbox is empty (kUnavailable after `timeout`, naming what is left).
  base::Result<void> drain(std::chrono::milliseconds timeout);
  /// The newest failure while it lasts: for /readyz. Empty when the last send succeeded.
  [[nodiscard]] std::string last_error() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sirenfeed::features
