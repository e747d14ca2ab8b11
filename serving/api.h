#pragma once
// The routes of docs/openapi.yaml over the parts that a process has.
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/metrics.h"
#include "base/result.h"
#include "ingest/event_log.h"
#include "serving/config.h"
#include "serving/probe.h"
#include "serving/router.h"

namespace sirenfeed::features {
class FeatureReader;
}

namespace sirenfeed::serving {

class FeedService;
class ModelSlot;

/// /readyz: 200 when `ready`; the reasons and the state are in the body either way.
struct Readiness {
  bool ready = false;
  std::vector<std::string> reasons;  // why not, or what is degraded: "broker_lost", "catching_up"
  std::int64_t lag_events = 0;
};

/// Null where the process does not have it: its routes then are not there (404). `train` gives
/// only the registry, readiness and perhaps `models`.
struct ApiParts {
  base::MetricsRegistry& registry;
  ServingProbe& probe;
  FeedService* feeds = nullptr;
  ModelSlot* models = nullptr;
  const features::FeatureReader* features = nullptr;
  const base::Clock* clock = nullptr;     // of the events (wall or event)
  ingest::LogWriter* events = nullptr;    // for POST /v1/events, erase, takedown, PUT item
  ingest::Partition partitions = 1;       // of impressions, clicks, users, requests
  ingest::Partition item_partitions = 1;  // of items
  std::function<Readiness()> readiness;   // null: always ready
  /// The offset that the state has applied up to, to know whether an erase or takedown is in force.
  /// Null: such calls answer 202.
  std::function<bool(ingest::TopicPartition, ingest::Offset)> applied;
  /// Events behind the head of the log; null: never behind. Over lag_max POST /v1/events gets 429.
  std::function<std::int64_t()> lag_events;
  std::function<base::Result<void>()> close_windows;  // null: 404
  /// What an applied erasure or takedown has removed: keys by family. Null or nullopt: not known.
  std::function<std::optional<std::map<std::string, std::uint64_t>>(ingest::TopicPartition,
                                                                    ingest::Offset)>
      removed;
  /// Takes a user's served requests out of what still waits to be written; how many. Null: none.
  std::function<std::size_t(const std::string&)> forget_requests;
  /// Where copies remain after an erasure or takedown, and until when.
  std::vector<std::string> copies_left;
  /// The owner's part of a backup into a folder; null: 404. Who asks must know `owner_token`.
  std::function<base::Result<void>(const std::string&)> backup;
  std::string owner_token;
  std::string role = "serve";                         // shown by /healthz
};

/// Owns the waiting room of erase and takedown calls. Borrows the parts; outlives the HttpServer
/// that its router was given to.
class Api {
 public:
  Api(const ApiConfig& config, ApiParts parts);
  ~Api();
  Api(const Api&) = delete;
  Api& operator=(const Api&) = delete;
  [[nodiscard]] Router router();
  /// Answers the calls that still wait. Idempotent.
  void stop();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sirenfeed::serving
