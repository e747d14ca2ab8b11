#include "serving/config.h"

#include <cmath>
#include <set>

namespace sirenfeed::serving {

namespace {

using base::ErrorCode;
using base::fail;

base::Result<void> positive(const char* name, std::size_t value) {
  if (value == 0) return fail(ErrorCode::kInvalidArgument, "{}: must be at least 1", name);
  return {};
}

base::Result<void> positive(const char* name, std::chrono::milliseconds value) {
  if (value.count() <= 0) {
    return fail(ErrorCode::kInvalidArgument, "{}: must be longer than 0 ms", name);
  }
  return {};
}

}  // namespace

base::Result<void> HttpConfig::validate() const {
  if (address.empty()) return fail(ErrorCode::kInvalidArgument, "http.address: is empty");
  SF_TRY(positive("http.io_threads", io_threads));
  SF_TRY(positive("http.worker_threads", worker_threads));
  SF_TRY(positive("http.connections_max", connections_max));
  SF_TRY(positive("http.request_queue_max", request_queue_max));
  SF_TRY(positive("http.body_bytes_max", body_bytes_max));
  SF_TRY(positive("http.target_bytes_max", target_bytes_max));
  if (header_bytes_max < 256 || header_bytes_max > (1U << 20U)) {
    return fail(ErrorCode::kInvalidArgument, "http.header_bytes_max: {} is not 256 to 1048576",
                header_bytes_max);
  }
  SF_TRY(positive("http.keep_alive_timeout", keep_alive_timeout));
  SF_TRY(positive("http.header_timeout", header_timeout));
  SF_TRY(positive("http.body_timeout", body_timeout));
  SF_TRY(positive("http.write_timeout", write_timeout));
  SF_TRY(positive("http.request_deadline", request_deadline));
  if (retry_after.count() < 1) {
    return fail(ErrorCode::kInvalidArgument, "http.retry_after: must be at least 1 s");
  }
  return {};
}

base::Result<void> SourcesConfig::validate() const {
  SF_TRY(positive("feed.sources.candidates_max", candidates_max));
  if (fresh_max + popular_max + topics_max + authors_max + exploration_max == 0) {
    return fail(ErrorCode::kInvalidArgument, "feed.sources: every source has a maximum of 0");
  }
  return {};
}

base::Result<void> FiltersConfig::validate() const {
  if (age_max_ms < 0) return fail(ErrorCode::kInvalidArgument, "feed.filters.age_max_ms: below 0");
  return {};
}

base::Result<void> ScorerConfig::validate() const {
  if (task_weights.empty()) {
    return fail(ErrorCode::kInvalidArgument, "feed.scorer.task_weights: is empty");
  }
  std::set<std::string> names;
  for (const TaskWeight& weight : task_weights) {
    if (!std::isfinite(weight.weight)) {
      return fail(ErrorCode::kInvalidArgument, "feed.scorer.task_weights: {} is not finite",
                  weight.task);
    }
    if (!names.insert(weight.task).second) {
      return fail(ErrorCode::kInvalidArgument, "feed.scorer.task_weights: {} is named twice",
                  weight.task);
    }
  }
  return positive("feed.scorer.block_items", block_items);
}

base::Result<void> SelectorConfig::validate() const {
  if (!(exploration_share >= 0 && exploration_share < 1)) {
    return fail(ErrorCode::kInvalidArgument, "feed.selector.exploration_share: {} is not in [0, 1)",
                exploration_share);
  }
  if (!(per_topic_share > 0 && per_topic_share <= 1)) {
    return fail(ErrorCode::kInvalidArgument, "feed.selector.per_topic_share: {} is not in (0, 1]",
                per_topic_share);
  }
  return {};
}

base::Result<void> FeedConfig::validate() const {
  SF_TRY(positive("feed.count_default", count_default));
  SF_TRY(positive("feed.id_bytes_max", id_bytes_max));
  SF_TRY(positive("feed.rank_items_max", rank_items_max));
  if (count_max < count_default) {
    return fail(ErrorCode::kInvalidArgument, "feed.count_max: {} is below feed.count_default ({})",
                count_max, count_default);
  }
  SF_TRY(sources.validate());
  SF_TRY(filters.validate());
  SF_TRY(scorer.validate());
  return selector.validate();
}

base::Result<void> ModelSlotConfig::validate() const {
  SF_TRY(positive("model.poll_interval", poll_interval));
  if (poll_interval > std::chrono::seconds(1)) {
    return fail(ErrorCode::kInvalidArgument,
                "model.poll_interval: a new version must be served within 1000 ms");
  }
  if (!(canary_logit_abs_max > 0)) {
    return fail(ErrorCode::kInvalidArgument, "model.canary_logit_abs_max: must be above 0");
  }
  return positive("model.history_versions_max", history_versions_max);
}

base::Result<void> ApiConfig::validate() const {
  SF_TRY(positive("api.events_per_request_max", events_per_request_max));
  SF_TRY(positive("api.events_wait_max", events_wait_max));
  SF_TRY(positive("api.apply_wait_max", apply_wait_max));
  if (events_in_flight_max < events_per_request_max) {
    return fail(ErrorCode::kInvalidArgument,
                "api.events_in_flight_max: {} is below api.events_per_request_max ({})",
                events_in_flight_max, events_per_request_max);
  }
  if (lag_events_max < 1) {
    return fail(ErrorCode::kInvalidArgument, "api.lag_events_max: must be at least 1");
  }
  return {};
}

base::Result<void> ServingConfig::validate() const {
  SF_TRY(http.validate());
  SF_TRY(feed.validate());
  SF_TRY(model.validate());
  return api.validate();
}

}  // namespace sirenfeed::serving
