#pragma once
// The live trainer: topic examples → batches → model → model store, with a checkpoint that makes
// every example count exactly once.
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "ingest/event_log.h"
#include "model/model.h"
#include "trainer/checkpoint.h"
#include "trainer/config.h"
#include "trainer/example_decoder.h"
#include "trainer/metric_window.h"
#include "trainer/probe.h"

namespace sirenfeed::model {
class ModelStoreWriter;
}

namespace sirenfeed::trainer {

enum class TrainState {
  kStopped,     // not started, or stopped by stop()
  kCatchingUp,  // reading what the log already holds
  kLive,        // at the end of every partition
  kDegraded,    // no broker answers, or an error that is being retried: see last_error
  kFinished,    // until_end: everything was learned, published and checkpointed
  kFailed,      // stopped by an error that a human must look at: see last_error
};
[[nodiscard]] const char* train_state_name(TrainState state) noexcept;

struct TrainStatus {
  struct Stopped {
    ingest::Partition partition = 0;
    std::string reason;
  };
  TrainState state = TrainState::kStopped;
  bool caught_up = false;  // was at the end of every partition once
  std::string last_error;  // empty: none since the last success
  std::uint64_t examples = 0;
  std::uint64_t batches = 0;
  std::uint64_t published_version = 0;  // 0: none yet
  std::vector<Stopped> stopped;         // partitions that are not read any more (a gap, an epoch)
  std::vector<WindowFigures> progressive;
};

/// What the loop works with; all outlive it.
struct TrainLoopDeps {
  ingest::EventLog& log;
  model::ModelStoreWriter& store;
  TrainerProbe& probe;
  const base::Clock& clock;         // arrival time, for the metrics alone
  const base::SteadyClock& steady;  // intervals
};

/// Exactly once: of each partition the example after the last one is accepted (same epoch and
/// sequence + 1, or the next epoch's first, 0 or 1); an older one is a duplicate; one that is too
/// far ahead stops the partition with a message that names the gap, an older epoch likewise. A
/// record that is no example is a dead letter; where it stood for a sequence number, that number
/// counts as used up by it.
///
/// A trainer without a checkpoint starts at the oldest retained record, whatever its number. After
/// a warm start (warm_start.h) it does too, but passes over the examples of a partition up to the
/// first one whose exposure is newer than the recorded log.
///
/// Threads: start() makes one; run() uses the caller's. status() may be called from any.
class TrainLoop {
 public:
  /// Restores the checkpoint when there is one; `start` is the model to begin with otherwise, and
  /// gives the configuration that the checkpoint must have.
  static base::Result<std::unique_ptr<TrainLoop>> create(const TrainLoopConfig& config,
                                                         const model::Model& start,
                                                         const TrainLoopDeps& deps);
  ~TrainLoop();
  TrainLoop(const TrainLoop&) = delete;
  TrainLoop& operator=(const TrainLoop&) = delete;

  /// Idempotent; nothing after stop().
  void start();
  /// Waits for the loop to publish and to write its checkpoint. Idempotent and final.
  void stop();
  /// Runs on this thread until stop(), the log's end with until_end, or a failure.
  base::Result<void> run();
  /// After start(): waits until the loop has ended by itself (until_end, failure) or was stopped.
  base::Result<void> wait();

  [[nodiscard]] TrainStatus status() const;
  /// Not while the loop runs.
  [[nodiscard]] const model::Model& model() const;
  [[nodiscard]] Positions positions() const;

 private:
  struct Impl;
  explicit TrainLoop(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace sirenfeed::trainer
