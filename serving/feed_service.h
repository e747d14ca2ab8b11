#pragma once
// One request from user to ranked list: sources → filters → scorer → selector.
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "serving/config.h"
#include "serving/probe.h"

namespace sirenfeed::features {
class FeatureReader;
}

namespace sirenfeed::serving {

class ModelSlot;
class RequestLog;

struct FeedRequest {
  std::string user_id;
  std::optional<std::size_t> count;  // default count_default
  std::optional<std::string> surface;
  std::vector<std::string> exclude;
  bool explain = false;
  bool debug = false;
};

struct RankRequest {
  std::string user_id;
  std::vector<std::string> items;
  std::optional<std::string> surface;
  bool explain = false;
};

struct FeedItem {
  std::string item_id;
  double score = 0;                                           // the utility that ordered it
  std::vector<std::pair<std::string, double>> probabilities;  // by task; empty without a model
  std::string source;                                         // of feed(); "caller" in rank()
  bool explored = false;         // put there by exploration, not by its score
  double propensity = 1;         // chance of being shown in this slot, given the candidates
  bool known = true;             // in the catalog
  std::vector<std::string> why;  // with explain
  // from the catalog, for display
  std::optional<std::string> title, url, image_url, author_id;
  std::vector<std::string> tags;
  std::optional<base::UnixMs> published_at_ms;
};

struct SourceReport {
  std::string source;
  std::size_t given = 0;
  std::int64_t took_us = 0;
};

/// A candidate that is not in the answer. Every candidate ends in exactly one bucket.
struct RemovedItem {
  std::string item_id;
  std::string reason;  // the filter's or the selector's
};

struct DebugReport {
  std::vector<SourceReport> sources;
  std::vector<std::pair<std::string, std::int64_t>> stages_us;
  std::size_t candidates = 0;  // distinct: the items shown and the removed ones
};

struct FeedAnswer {
  std::string request_id;
  std::string user_id;
  base::UnixMs time_ms = 0;             // the time that the request was answered for
  std::uint64_t model_version = 0;      // 0: none
  std::optional<std::string> degraded;  // why the answer is less than usual
  std::int64_t took_us = 0;
  std::size_t history_items = 0;
  std::vector<FeedItem> items;
  std::vector<RemovedItem> removed;  // feed(): with debug; rank(): always
  std::optional<DebugReport> debug;
};

/// Threads: any number of concurrent callers. Borrows everything; all outlive it.
class FeedService {
 public:
  struct Parts {
    const base::Clock& clock;  // wall or event
    const features::FeatureReader& features;
    ModelSlot& models;               // before its first model answers are cold and marked degraded
    RequestLog* requests = nullptr;  // may be null: nothing is written
    ServingProbe& probe;
  };
  FeedService(const FeedConfig& config, Parts parts);
  ~FeedService();
  FeedService(const FeedService&) = delete;
  FeedService& operator=(const FeedService&) = delete;

  /// An unknown user gets a cold-start feed. kInvalidArgument: the message begins with the field's
  /// name and a colon.
  base::Result<FeedAnswer> feed(const FeedRequest& request);
  /// Orders the caller's own items; unknown ones are scored from what is known and marked. Items
  /// that were taken down are left out.
  base::Result<FeedAnswer> rank(const RankRequest& request);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sirenfeed::serving
