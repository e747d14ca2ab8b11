#pragma once
// A log at the other end of POST /v1/events: what `publish --http` writes to. Events are sent in
// batches of NDJSON and each is delivered when the server says that it is durable.
#include <chrono>
#include <cstddef>
#include <deque>
#include <functional>
#include <optional>
#include <string>

#include "app/http_client.h"
#include "base/result.h"
#include "ingest/event_log.h"

namespace sirenfeed::app {

struct HttpLogWriterConfig {
  std::size_t batch_events_max = 1'000;          // at most the server's events_per_request_max
  std::size_t batch_bytes_max = 1U << 20U;       // at most the server's body_bytes_max
  std::chrono::milliseconds linger{100};         // an append sends what has waited this long
  std::chrono::milliseconds retry_wait_min{50};  // after 429, 503 or no answer; doubles
  std::chrono::milliseconds retry_wait_max{2'000};
};

/// Unlike other writers it survives failed deliveries: what the server did not take or confirm
/// (429, 503, no answer) stays queued and is sent again with the same ids, so that nothing is
/// applied twice. What it refused is reported as kInvalidArgument, an event that is too large as
/// kTooLarge. Offsets are the server's. Threads: one, which also runs the callbacks (inside append
/// and flush).
class HttpLogWriter final : public ingest::LogWriter {
 public:
  /// Sends one body of NDJSON to /v1/events.
  using Post = std::function<base::Result<HttpResponse>(std::string body)>;

  HttpLogWriter(HttpLogWriterConfig config, Post post);

  /// kUnavailable when the queue is full and the server takes nothing just now.
  base::Result<void> append(ingest::TopicPartition target, std::optional<std::string> key,
                            std::optional<std::string> value, base::UnixMs time_ms,
                            OnDelivered on_delivered) override;
  base::Result<void> flush(std::chrono::milliseconds timeout) override;

 private:
  using Steady = std::chrono::steady_clock;
  struct Event {
    std::string line;
    OnDelivered on_delivered;
  };

  /// One request with the oldest events; false when nothing of them was settled.
  base::Result<bool> send_batch();
  base::Result<std::size_t> settle(const HttpResponse& response, std::size_t sent);
  void wait_before_retry(Steady::time_point deadline);
  [[nodiscard]] bool batch_is_full() const;

  const HttpLogWriterConfig config_;
  const Post post_;
  std::deque<Event> queue_;
  std::size_t queue_bytes_ = 0;
  Steady::time_point oldest_at_;
  std::chrono::milliseconds retry_wait_{0};
  std::string last_trouble_;
};

}  // namespace sirenfeed::app
