#pragma once
#include <array>
#include <cstddef>

#include "base/metrics.h"

namespace sirenfeed::serving {

/// The stages of one feed, in order.
enum class Stage { kUser, kSources, kFilters, kFeatures, kScorer, kSelector };
inline constexpr std::size_t kStages = 6;
[[nodiscard]] const char* stage_name(Stage stage) noexcept;

/// What serving exports. Made once per process; any thread.
struct ServingProbe {
  explicit ServingProbe(base::MetricsRegistry& registry);

  // HTTP
  base::Counter connections;
  base::Gauge connections_open;
  base::Counter connections_refused;
  base::Counter requests;
  base::Counter responses_2xx;
  base::Counter responses_4xx;
  base::Counter responses_5xx;
  base::Counter overloaded;
  base::Counter timed_out;
  base::Gauge request_queue;
  base::Histogram http_latency;
  // feeds
  base::Counter feeds;
  base::Counter ranks;
  base::Counter degraded;
  base::Counter items_served;
  base::Counter items_explored;
  base::Histogram feed_latency;
  std::array<base::Histogram, kStages> stage_latency;
  // requests written to their topic
  base::Counter requests_logged;
  base::Counter requests_dropped;
  // events that came by POST /v1/events
  base::Counter events_accepted;
  base::Counter events_refused;
  base::Gauge events_in_flight;
  // the model that is served
  base::Gauge model_version;
  base::Gauge model_age;
  base::Counter model_swaps;
  base::Counter model_refused;
  base::Histogram example_to_served;  // of the oldest example that a swapped-in version brought
};

}  // namespace sirenfeed::serving
