#pragma once
// The trainer wired to its log and model store: what `train` runs, and half of what `up` runs.
#include <memory>
#include <string>

#include "app/settings.h"
#include "base/metrics.h"
#include "base/result.h"
#include "ingest/event_log.h"
#include "trainer/train_loop.h"

namespace sirenfeed::app {

/// Owns the trainer's folder (locked), its loop and its threads. Threads: start and stop from one.
class TrainNode {
 public:
  /// `log` and `registry` outlive the node. The loop does not run yet.
  static base::Result<std::unique_ptr<TrainNode>> open(const Settings& settings,
                                                       ingest::EventLog& log,
                                                       base::MetricsRegistry& registry);
  ~TrainNode();
  TrainNode(const TrainNode&) = delete;
  TrainNode& operator=(const TrainNode&) = delete;

  void start();
  void stop();  // writes a checkpoint; idempotent
  /// Runs on this thread: to the log's end with trainer.until_end.
  base::Result<void> run();
  [[nodiscard]] trainer::TrainStatus status() const;

 private:
  struct Impl;
  explicit TrainNode(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace sirenfeed::app
