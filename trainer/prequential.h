#pragma once
// The engine of `evaluate`: test, then train, causally (STREAM.md, Causality).
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "model/model.h"
#include "trainer/config.h"
#include "trainer/decoded_example.h"
#include "trainer/example_decoder.h"
#include "trainer/exposure_rows.h"

namespace sirenfeed::trainer {

/// One model to train in the pass: a variant and a seed.
struct PrequentialRun {
  std::string name;  // in logs, e.g. "siren.1"
  const model::Model* start = nullptr;
  StepConfig step;
};

struct PrequentialResult {
  std::string name;
  std::vector<float> logits;         // [rows, tasks] as served, in the order of the exposures
  std::vector<float> frozen_logits;  // the same of on_frozen(); empty where it was not called
  std::uint64_t examples = 0;
  std::uint64_t batches = 0;
  std::uint64_t batches_skipped = 0;
  std::uint64_t not_finite = 0;  // logits of either kind
  double busy_seconds = 0;       // of the run's own work, waiting excluded
};

struct PrequentialOutcome {
  std::vector<ExposureRow> rows;  // that have closed, in the order of the exposures
  std::uint64_t unmatched = 0;    // rows whose example never closed: left out
  std::vector<PrequentialResult> results;
};

struct PrequentialConfig {
  std::size_t threads = 0;               // that work on the runs; 0: all cores; at most one a run
  std::size_t queue_entries_max = 64;    // groups of records between the caller and the last run
  std::size_t group_examples = 64;       // records handed over at once
  std::size_t score_pending_max = 4096;  // exposures kept unscored at most
  std::optional<std::uint64_t> shuffle_times_seed;  // the control of shuffle_times.h
};

/// Trains every run over one pass of the features, which are computed once and on the caller's
/// thread. A bounded number of threads take the runs in turn, so that memory and threads do not
/// grow with the number of runs beyond their models and logits. The result depends neither on the
/// number of threads nor on timing.
///
/// A prediction at time T uses the model that has learned exactly the full batches of examples that
/// were closed before T's first exposure; exposures of one T share it.
///
/// Threads: one caller.
class Prequential {
 public:
  static base::Result<std::unique_ptr<Prequential>> create(const ExampleSchema& schema,
                                                           const std::vector<PrequentialRun>& runs,
                                                           const PrequentialConfig& config);
  ~Prequential();  // stops without a result
  Prequential(const Prequential&) = delete;
  Prequential& operator=(const Prequential&) = delete;

  /// The exposure as features saw it (labels are not looked at), in applied order, before the
  /// windows that it closes.
  base::Result<void> on_exposure(const features::Example& example);
  /// Before on_exposure() of the same impression, or never in a pass: as on_frozen() of
  /// features::ExampleObserver. Scored by the model that scores the exposure, and never learned.
  base::Result<void> on_frozen(const features::Example& example);
  /// The example when its window has closed.
  base::Result<void> on_closed(const features::Example& example);
  /// End of input: learns what is left, the incomplete last batch included. Then the models can be
  /// asked for. Once.
  /// kInternal, which names the run, where a prediction is not finite: it has no rank and no loss.
  base::Result<PrequentialOutcome> finish();
  /// After finish(): the trained model of run `index`.
  [[nodiscard]] const model::Model& model(std::size_t index) const;

 private:
  struct Impl;
  explicit Prequential(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace sirenfeed::trainer
