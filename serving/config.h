#pragma once
// Every knob of serving, with its unit. Parsed once by the app; each class gets its own struct.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "ingest/event_parser.h"

namespace sirenfeed::serving {

/// The HTTP server (http_server.h).
struct HttpConfig {
  std::string address = "127.0.0.1";  // numeric IPv4 or IPv6, brackets allowed
  std::uint16_t port = 8080;          // 0: any free port
  std::size_t io_threads = 1;         // read, parse and write
  std::size_t worker_threads = 2;     // run the handlers
  std::size_t connections_max = 1024;
  std::size_t request_queue_max = 64;                    // waiting for a worker; more get 503
  std::size_t header_bytes_max = 16U << 10U;             // more get 431
  std::size_t body_bytes_max = 4U << 20U;                // more get 413
  std::size_t target_bytes_max = 8U << 10U;              // more get 414
  std::chrono::milliseconds keep_alive_timeout{60'000};  // between two requests
  std::chrono::milliseconds header_timeout{10'000};      // first byte to end of header
  std::chrono::milliseconds body_timeout{30'000};        // end of header to end of body
  std::chrono::milliseconds write_timeout{30'000};       // a client that does not read
  std::chrono::milliseconds request_deadline{10'000};    // end of body to an answer, then 503
  std::chrono::seconds retry_after{1};                   // in every 503 and 429
  [[nodiscard]] base::Result<void> validate() const;
};

/// Where candidates come from: how many each source gives at most.
struct SourcesConfig {
  std::size_t fresh_max = 150;
  std::size_t popular_max = 150;
  std::size_t topics_max = 100;      // over all of the user's topics
  std::size_t authors_max = 50;      // over all of the user's authors
  std::size_t exploration_max = 50;  // random living items
  std::size_t user_topics_max = 5;   // topics of the user's history that are followed
  std::size_t user_authors_max = 5;  // authors of the user's history that are followed
  std::size_t candidates_max = 500;  // what is scored, after the filters
  [[nodiscard]] base::Result<void> validate() const;
};

struct FiltersConfig {
  bool seen = true;             // items that the user was shown are not shown again
  base::UnixMs age_max_ms = 0;  // since published_at; 0: any age
  [[nodiscard]] base::Result<void> validate() const;
};

struct TaskWeight {
  std::string task;
  double weight = 0;  // may be negative, e.g. for hide
};

struct ScorerConfig {
  // utility = sum of weight × probability over the tasks that the model has
  std::vector<TaskWeight> task_weights = {{"click", 1.0}, {"long_view", 0.5}, {"like", 0.2}};
  std::size_t block_items = 512;  // candidates scored in one forward pass
  [[nodiscard]] base::Result<void> validate() const;
};

struct SelectorConfig {
  std::size_t per_author_max = 3;   // in one feed; 0: no cap
  double per_topic_share = 0.5;     // of a feed's slots, by the item's first tag; 1: no cap
  double exploration_share = 0.05;  // chance that a slot is filled by exploration
  std::uint64_t seed = 1;           // of the exploration's random numbers
  [[nodiscard]] base::Result<void> validate() const;
};

/// feed() and rank() (feed_service.h).
struct FeedConfig {
  std::size_t count_default = 20;
  std::size_t count_max = 200;
  std::size_t exclude_max = 1000;
  std::size_t rank_items_max = 1000;
  std::size_t id_bytes_max = 128;
  std::string surface_default;  // "": none
  SourcesConfig sources;
  FiltersConfig filters;
  ScorerConfig scorer;
  SelectorConfig selector;
  [[nodiscard]] base::Result<void> validate() const;
};

/// The hot swap (model_slot.h).
struct ModelSlotConfig {
  std::chrono::milliseconds poll_interval{50};  // of two small files
  double canary_logit_abs_max = 30;             // beyond it a model is refused
  std::size_t history_versions_max = 2000;      // points of the metric time series
  [[nodiscard]] base::Result<void> validate() const;
};

/// The handlers (api.h).
struct ApiConfig {
  ingest::ParserConfig parser;  // of POST /v1/events and PUT item: the same as the ingest's
  std::size_t events_per_request_max = 10'000;
  std::size_t events_in_flight_max = 50'000;        // not yet durable; more get 429
  std::chrono::milliseconds events_wait_max{5000};  // for durability
  std::chrono::milliseconds apply_wait_max{1000};   // for 200 instead of 202
  std::size_t apply_waits_max = 256;                // calls that wait at once
  std::int64_t lag_events_max = 1'000'000;          // behind the log's head; more get 429
  [[nodiscard]] base::Result<void> validate() const;
};

struct ServingConfig {
  HttpConfig http;
  FeedConfig feed;
  ModelSlotConfig model;
  ApiConfig api;
  [[nodiscard]] base::Result<void> validate() const;
};

}  // namespace sirenfeed::serving
