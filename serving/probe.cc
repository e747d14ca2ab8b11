#include "serving/probe.h"

namespace sirenfeed::serving {

const char* stage_name(Stage stage) noexcept {
  switch (stage) {
    case Stage::kUser:
      return "user";
    case Stage::kSources:
      return "sources";
    case Stage::kFilters:
      return "filters";
    case Stage::kFeatures:
      return "features";
    case Stage::kScorer:
      return "scorer";
    case Stage::kSelector:
      return "selector";
  }
  return "unknown";
}

namespace {

base::Counter responses(base::MetricsRegistry& registry, const char* kind) {
  return registry.counter("sirenfeed_serving_responses_total", "HTTP answers by class of status.",
                          {{"class", kind}});
}

base::Histogram stage_histogram(base::MetricsRegistry& registry, Stage stage) {
  return registry.histogram("sirenfeed_serving_stage_seconds", "Time in each stage of a feed.",
                            {{"stage", stage_name(stage)}}, base::latency_buckets_s());
}

}  // namespace

ServingProbe::ServingProbe(base::MetricsRegistry& r)
    : connections(r.counter("sirenfeed_serving_connections_total", "Accepted connections.")),
      connections_open(r.gauge("sirenfeed_serving_connections_open", "Connections open now.")),
      connections_refused(r.counter("sirenfeed_serving_connections_refused_total",
                                    "Connections over connections_max.")),
      requests(r.counter("sirenfeed_serving_requests_total", "HTTP requests read.")),
      responses_2xx(responses(r, "2xx")),
      responses_4xx(responses(r, "4xx")),
      responses_5xx(responses(r, "5xx")),
      overloaded(r.counter("sirenfeed_serving_overloaded_total",
                           "Requests that got 503 because request_queue_max was reached.")),
      timed_out(r.counter("sirenfeed_serving_timed_out_total",
                          "Requests without an answer by request_deadline, and slow clients.")),
      request_queue(
          r.gauge("sirenfeed_serving_request_queue_requests", "Requests waiting for a worker.")),
      http_latency(r.histogram("sirenfeed_serving_http_seconds",
                               "End of the request's body to the answer handed to the socket.", {},
                               base::latency_buckets_s())),
      feeds(r.counter("sirenfeed_serving_feeds_total", "Feeds answered.")),
      ranks(r.counter("sirenfeed_serving_ranks_total", "Rank calls answered.")),
      degraded(r.counter("sirenfeed_serving_degraded_total", "Answers marked degraded.")),
      items_served(r.counter("sirenfeed_serving_items_total", "Items in feeds.")),
      items_explored(r.counter("sirenfeed_serving_items_explored_total",
                               "Items in feeds that exploration put there.")),
      feed_latency(r.histogram("sirenfeed_serving_feed_seconds", "Time to make a feed.", {},
                               base::latency_buckets_s())),
      stage_latency{stage_histogram(r, Stage::kUser),    stage_histogram(r, Stage::kSources),
                    stage_histogram(r, Stage::kFilters), stage_histogram(r, Stage::kFeatures),
                    stage_histogram(r, Stage::kScorer),  stage_histogram(r, Stage::kSelector)},
      requests_logged(r.counter("sirenfeed_serving_requests_logged_total",
                                "Served requests written to topic requests.")),
      requests_dropped(r.counter("sirenfeed_serving_requests_dropped_total",
                                 "Served requests that topic requests did not take.")),
      events_accepted(r.counter("sirenfeed_serving_events_accepted_total",
                                "Events of POST /v1/events that are durable.")),
      events_refused(r.counter("sirenfeed_serving_events_refused_total",
                               "Events of POST /v1/events that were refused.")),
      events_in_flight(r.gauge("sirenfeed_serving_events_in_flight_events",
                               "Events handed to the log and not yet durable.")),
      model_version(r.gauge("sirenfeed_serving_model_version", "Version that is served; 0: none.")),
      model_age(r.gauge("sirenfeed_serving_model_age_seconds",
                        "Since the served version was published.")),
      model_swaps(r.counter("sirenfeed_serving_model_swaps_total", "Versions swapped in.")),
      model_refused(r.counter("sirenfeed_serving_model_refused_total",
                              "Versions refused: check-sum, chain, shapes, finite or canary.")),
      example_to_served(
          r.histogram("sirenfeed_serving_example_to_served_seconds",
                      "From an example's arrival in the trainer to a served weight; of the oldest "
                      "one that a version brought.",
                      {}, {0.25, 0.5, 0.75, 1, 1.25, 1.5, 1.75, 2, 2.5, 3, 5, 10, 30, 120})) {}

}  // namespace sirenfeed::serving
