#pragma once
#include <string>
#include <vector>

#include "base/metrics.h"
#include "model/model.h"

namespace sirenfeed::trainer {

struct StepReport;
struct WindowFigures;

/// The trainer's metrics. Threads: any.
struct TrainerProbe {
  TrainerProbe(base::MetricsRegistry& registry, const std::vector<std::string>& tasks);

  base::Counter examples;         // learned
  base::Counter corrections;      // of them, revisions above 0
  base::Counter duplicates;       // seen before, not learned again
  base::Counter recorded_before;  // of a time that the recorded log had covered, not learned again
  base::Counter erased;           // their user was erased before they left: nothing to learn
  base::Counter undecodable;      // dead letters
  base::Counter gaps;             // partitions stopped because a sequence number is missing
  base::Counter batches;          // learned
  base::Counter batches_skipped;  // non-finite loss or gradient
  base::Counter published;        // model versions
  base::Counter publish_errors;
  base::Counter checkpoints;
  base::Counter checkpoint_errors;
  base::Counter checkpoints_refused;        // at the start: damaged, or of another configuration
  base::Counter log_errors;                 // errors of the log that were retried
  base::Gauge loss;                         // of the last batch
  base::Gauge gradient_norm;                // of the last batch, before clipping
  base::Gauge rows;                         // of all tables
  base::Counter rows_expired;               // unseen for row_expiry_days
  std::vector<base::Counter> rows_evicted;  // a table; made room in a full one
  base::Gauge rotary_lambda;                // λ
  base::Gauge rotary_omega_norm;            // |ω|
  base::Gauge broker_lost;                  // 1 while no broker answers
  base::Histogram step_seconds;             // one batch
  base::Histogram publish_seconds;          // writing one version
  base::Histogram closed_to_published_seconds;  // wall time since the window of the newest example

  struct Task {
    base::Gauge log_loss;
    base::Gauge normalized_entropy;
    base::Gauge auc;
    base::Gauge calibration_error;
    base::Gauge rate;  // of positives
  };
  std::vector<Task> progressive;  // a task; over the newest scored cells
  struct Baseline {
    base::Gauge log_loss;
    base::Gauge normalized_entropy;
  };
  std::vector<Baseline> counter;  // a task: the counter tower's own; 0 without it

  /// Rows, λ and |ω|; a variant without rotation leaves the latter at 0.
  void set_model(const model::Model& model) const;
  void add_removed(const StepReport& report) const;
  void set_progressive(const std::vector<WindowFigures>& figures) const;
  void set_counter(const std::vector<WindowFigures>& figures) const;
};

}  // namespace sirenfeed::trainer
