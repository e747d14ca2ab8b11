#include "app/evaluation.h"

#include <chrono>
#include <deque>
#include <optional>
#include <set>

#include "app/example_file.h"
#include "app/recorded_pass.h"
#include "example.pb.h"
#include "features/example_json.h"

namespace sirenfeed::app {
namespace {

/// Hands every example to the engine and keeps the newest for the dump.
class Feeder final : public features::ExampleObserver {
 public:
  Feeder(trainer::Prequential& engine, const EvaluationOptions& options, ExampleFile* file,
         std::function<void(std::uint64_t)> on_progress)
      : engine_(engine),
        keep_(options.dump_examples),
        frozen_(options.frozen_users),
        file_(file),
        on_progress_(std::move(on_progress)) {}

  [[nodiscard]] bool wants_frozen() const override { return frozen_; }
  void on_frozen(const features::Example& example) override { note(engine_.on_frozen(example)); }

  void on_exposure(const features::Example& example) override {
    note(engine_.on_exposure(example));
    if (keep_ > 0) {
      newest_.push_back(example);
      if (newest_.size() > keep_) newest_.pop_front();
    }
    ++exposures_;
    if (exposures_ % kProgressEvery == 0) on_progress_(exposures_);
  }
  void on_closed(const features::Example& example) override {
    note(engine_.on_closed(example));
    if (file_ != nullptr) file_->append(example.SerializeAsString());
  }

  [[nodiscard]] const base::Result<void>& status() const { return status_; }
  [[nodiscard]] const std::deque<features::Example>& newest() const { return newest_; }

 private:
  static constexpr std::uint64_t kProgressEvery = 1000;
  void note(base::Result<void> result) {
    if (status_ && !result) status_ = std::move(result);
  }

  trainer::Prequential& engine_;
  const std::size_t keep_;
  const bool frozen_;
  ExampleFile* const file_;
  const std::function<void(std::uint64_t)> on_progress_;
  std::uint64_t exposures_ = 0;
  std::deque<features::Example> newest_;
  base::Result<void> status_;
};

struct Starts {
  std::vector<model::Model> models;
  std::vector<trainer::PrequentialRun> runs;
  std::vector<EvaluatedModel> named;
};

base::Result<Starts> make_starts(const EvaluationOptions& options, const Settings& settings) {
  Starts starts;
  for (const std::string& variant : options.variants) {
    for (std::uint32_t i = 0; i < options.seeds; ++i) {
      model::ModelConfig config = settings.model;
      SF_ASSIGN(config.variant, model::parse_variant(variant));
      config.seed = settings.seed + i;
      SF_ASSIGN(model::Model start, model::make_model(config));
      starts.models.push_back(std::move(start));
      starts.named.push_back({variant, config.seed, {}, {}});
    }
  }
  for (std::size_t i = 0; i < starts.models.size(); ++i) {
    trainer::StepConfig step = settings.trainer.step;
    // Several models share the cores already; the threads of a step change no byte.
    if (starts.models.size() > 1 && step.threads == 0) step.threads = 1;
    starts.runs.push_back({starts.named[i].variant + "." + std::to_string(starts.named[i].seed),
                           &starts.models[i], step});
  }
  return starts;
}

/// Drives the file through ingest and features into the engine.
base::Result<void> pass(const EvaluationOptions& options, const Settings& settings,
                        trainer::Prequential& engine,
                        const std::function<void(double, std::uint64_t)>& on_progress,
                        Evaluation& evaluation) {
  std::optional<ExampleFile> examples;
  if (!options.examples_file.empty()) {
    SF_ASSIGN(ExampleFile file, ExampleFile::create(options.examples_file));
    examples.emplace(std::move(file));
  }
  ExampleFile* const examples_file = examples ? &*examples : nullptr;
  const RecordedPass* reading = nullptr;
  Feeder feeder(engine, options, examples_file, [&](std::uint64_t exposures) {
    if (on_progress && reading != nullptr) on_progress(reading->share_read(), exposures);
  });
  SF_ASSIGN(const auto recorded,
            RecordedPass::open({options.file, options.format, options.replay}, settings, feeder));
  reading = recorded.get();
  SF_TRY(recorded->run());
  SF_TRY(feeder.status());
  if (examples) SF_TRY(examples->close());
  evaluation.records_rejected = recorded->records_rejected();
  std::set<std::string> known(settings.features.context.surfaces.begin(),
                              settings.features.context.surfaces.end());
  for (const features::Example& example : feeder.newest()) {
    if (!example.surface().empty()) known.insert(example.surface());
  }
  const std::vector<std::string> surfaces(known.begin(), known.end());
  const features::ExampleNames names{settings.features.example.actions, surfaces};
  for (const features::Example& example : feeder.newest()) {
    SF_ASSIGN(std::string line, features::example_to_json(example, recorded->reader(), names));
    evaluation.example_lines.push_back(std::move(line));
  }
  return {};
}

}  // namespace

base::Result<Evaluation> evaluate(const EvaluationOptions& options, const Settings& settings,
                                  const std::function<void(double, std::uint64_t)>& on_progress) {
  const auto began = std::chrono::steady_clock::now();
  SF_ASSIGN(Starts starts, make_starts(options, settings));
  const trainer::ExampleSchema schema{settings.model.context_row_names(), settings.model.actions,
                                      settings.model.tasks};
  trainer::PrequentialConfig pass_config;
  pass_config.threads = options.jobs;
  if (options.shuffle_times) pass_config.shuffle_times_seed = settings.seed;
  SF_ASSIGN(const auto engine, trainer::Prequential::create(schema, starts.runs, pass_config));
  Evaluation evaluation;
  SF_TRY(pass(options, settings, *engine, on_progress, evaluation));
  SF_ASSIGN(trainer::PrequentialOutcome outcome, engine->finish());
  evaluation.rows = std::move(outcome.rows);
  evaluation.unmatched = outcome.unmatched;
  evaluation.models = std::move(starts.named);
  for (std::size_t i = 0; i < evaluation.models.size(); ++i) {
    evaluation.models[i].result = std::move(outcome.results[i]);
    evaluation.models[i].model = engine->model(i);
  }
  evaluation.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  return evaluation;
}

}  // namespace sirenfeed::app
