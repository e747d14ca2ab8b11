#pragma once
// Ingest, features and serving wired together: what `serve` runs, and half of what `up` runs.
#include <memory>
#include <string>

#include "app/settings.h"
#include "base/clock.h"
#include "base/metrics.h"
#include "base/result.h"
#include "ingest/event_log.h"

namespace sirenfeed::app {

/// Owns its threads. Threads: start and stop from one.
class FeedNode {
 public:
  /// `log`, `registry` and `settings` outlive the node.
  static base::Result<std::unique_ptr<FeedNode>> start(const Settings& settings,
                                                       ingest::EventLog& log,
                                                       base::MetricsRegistry& registry);
  ~FeedNode();
  FeedNode(const FeedNode&) = delete;
  FeedNode& operator=(const FeedNode&) = delete;

  /// Answers what is under way, applies the batch in hand, leaves the rest for the next start.
  /// Idempotent.
  void stop();
  [[nodiscard]] std::string url() const;

 private:
  struct Impl;
  explicit FeedNode(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace sirenfeed::app
