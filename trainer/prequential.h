#pragma once
// The engine of `evaluate`: test, then train, causally (STREAM.md, Causality).
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "model/model.h"
#include "trainer/config.h"
#include "trainer/decoded_example.h"
#include "trainer/example_decoder.h"

namespace sirenfeed::trainer {

/// What was predicted for one candidate of one exposure, and what became of it.
struct PredictionCell {
  double probability = 0;
  std::uint8_t label = 0;
  bool masked = false;  // the cell was not to be learned: not reported
};

/// One exposure and candidate; `cells` has one entry a task.
struct PredictionRow {
  base::UnixMs time_ms = 0;
  std::string user_id;
  std::string item_id;
  ExampleIdentity identity;
  std::vector<PredictionCell> cells;
};

/// One model to train in the pass: a variant and a seed.
struct PrequentialRun {
  std::string name;  // in logs, e.g. "siren.1"
  const model::Model* start = nullptr;
  StepConfig step;
};

struct PrequentialResult {
  std::string name;
  std::vector<PredictionRow> rows;  // in the order of the exposures
  std::uint64_t examples = 0;
  std::uint64_t batches = 0;
  std::uint64_t batches_skipped = 0;
  std::uint64_t unmatched = 0;  // exposures whose example never closed: not in `rows`
  double busy_seconds = 0;      // of the run's own thread, waiting excluded
};

struct PrequentialConfig {
  std::size_t queue_entries_max = 64;    // groups of records between the caller and a run
  std::size_t group_examples = 64;       // records handed over at once
  std::size_t score_pending_max = 4096;  // exposures kept unscored at most
};

/// Trains every run over one pass of the features: each run has a thread of its own behind a
/// bounded queue, so features are computed once and on the caller's core. The result depends
/// neither on the number of threads nor on timing.
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
  /// The example when its window has closed.
  base::Result<void> on_closed(const features::Example& example);
  /// End of input: learns what is left, the incomplete last batch included. Then the models can be
  /// asked for. Once.
  base::Result<std::vector<PrequentialResult>> finish();
  /// After finish(): the trained model of run `index`.
  [[nodiscard]] const model::Model& model(std::size_t index) const;

 private:
  struct Impl;
  explicit Prequential(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace sirenfeed::trainer
