#pragma once
// Publishing beside the training thread: serialising, writing and checking a version takes longer
// than a batch, and a full file of a large model much longer.
#include <cstdint>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "model/manifest.h"
#include "model/model.h"
#include "trainer/background_task.h"
#include "trainer/metric_window.h"
#include "trainer/probe.h"

namespace sirenfeed::model {
class ModelStoreWriter;
}

namespace sirenfeed::trainer {

class OnlineTrainer;

/// One version in work at a time, and beside it one full file of an earlier version. A version is a
/// snapshot: what is learned meanwhile goes into the next. Threads: one owner calls everything.
class ModelPublisher {
 public:
  /// All outlive it.
  ModelPublisher(model::ModelStoreWriter& store, TrainerProbe& probe, const base::Clock& clock)
      : store_(store), probe_(probe), clock_(clock) {}

  /// An example that came at `arrived_ms` was learned.
  void note_learned(base::UnixMs arrived_ms);

  [[nodiscard]] bool idle() const { return task_.idle(); }
  /// Takes the model as it is now. Only while idle.
  void start(const OnlineTrainer& trainer, base::UnixMs newest_closed_ms);
  /// The result of the version that was in work, once; starts a full file when one is due.
  [[nodiscard]] std::optional<base::Result<void>> take_result();
  [[nodiscard]] std::optional<base::Result<void>> take_full_result() {
    return full_task_.take_result();
  }
  void wait() const { task_.wait(); }
  void wait_for_full() const { full_task_.wait(); }

  /// Examples in the newest published model.
  [[nodiscard]] std::uint64_t published_examples() const { return published_examples_; }
  void set_published_examples(std::uint64_t examples) { published_examples_ = examples; }
  /// Progressive figures of the newest published model.
  [[nodiscard]] const std::vector<WindowFigures>& figures() const { return figures_; }

 private:
  struct Version {
    model::Model model;
    std::vector<MetricWindow> windows;
    std::vector<MetricWindow> counter_windows;
    std::uint64_t examples = 0;
    std::uint64_t batches = 0;
    std::uint64_t batches_skipped = 0;
    base::UnixMs newest_closed_ms = 0;
    model::Arrivals arrivals;
    std::vector<WindowFigures> figures;          // written by the task
    std::vector<WindowFigures> counter_figures;  // likewise
    double seconds = 0;                          // likewise
  };
  base::Result<void> publish(Version& version);

  model::ModelStoreWriter& store_;
  TrainerProbe& probe_;
  const base::Clock& clock_;
  std::uint64_t published_examples_ = 0;
  std::vector<WindowFigures> figures_;
  model::Arrivals unpublished_;     // of what was learned since the newest snapshot
  std::optional<Version> version_;  // the task's while it runs
  BackgroundTask task_;
  BackgroundTask full_task_;
};

}  // namespace sirenfeed::trainer
