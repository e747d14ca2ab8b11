#pragma once
// One causal pass over a recorded input: file → ingest → features → prequential engine, without a
// broker and through the same classes as live traffic.
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "app/settings.h"
#include "base/result.h"
#include "ingest/replay_reader.h"
#include "model/loss.h"
#include "model/model.h"
#include "trainer/prequential.h"

namespace sirenfeed::app {

struct EvaluationOptions {
  std::string file;
  ingest::ReplayFormat format = ingest::ReplayFormat::kEvents;
  ingest::ReplayOptions replay;
  std::vector<std::string> variants = {"siren"};
  std::uint32_t seeds = 1;        // seed, seed + 1, …: of the model's start
  std::size_t dump_examples = 0;  // of the newest scored examples, as JSON lines
  std::string examples_file;      // every closed example as it would lie in its topic; "": none
  bool shuffle_times = false;     // the control: trainer/shuffle_times.h
  bool frozen_users = false;      // predict for frozen users, too: features::ExampleObserver
  std::size_t jobs = 0;           // models that are worked on at once; 0: all cores
};

struct EvaluatedModel {
  std::string variant;
  std::uint64_t seed = 0;
  trainer::PrequentialResult result;
  model::Model model;  // after the last example

  /// P(label) of the task in row `row`.
  [[nodiscard]] double probability(std::size_t row, std::size_t task, std::size_t tasks) const {
    return model::sigmoid(result.logits[row * tasks + task]);
  }
  /// The same for the user frozen at the day's first impression; only with frozen_users.
  [[nodiscard]] double frozen_probability(std::size_t row, std::size_t task,
                                          std::size_t tasks) const {
    return model::sigmoid(result.frozen_logits[row * tasks + task]);
  }
};

struct Evaluation {
  std::vector<trainer::ExposureRow> rows;  // in the order of the exposures
  std::uint64_t unmatched = 0;             // exposures whose window never closed: not in rows
  std::vector<EvaluatedModel> models;      // variant by variant, seeds ascending
  std::vector<std::string> example_lines;  // oldest first
  std::uint64_t records_rejected = 0;
  double seconds = 0;  // wall time of the pass
};

/// `on_progress` is told the share of the file that was read and the exposures so far. The state
/// lies in a temporary folder that is gone afterwards.
[[nodiscard]] base::Result<Evaluation> evaluate(
    const EvaluationOptions& options, const Settings& settings,
    const std::function<void(double share, std::uint64_t exposures)>& on_progress);

}  // namespace sirenfeed::app
