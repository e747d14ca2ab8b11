#include "trainer/prequential.h"

#include <utility>

#include "base/check.h"
#include "trainer/prequential_pass.h"
#include "trainer/run_pool.h"
#include "trainer/shuffle_times.h"

namespace sirenfeed::trainer {

struct Prequential::Impl {
  ExampleDecoder decoder;
  const PrequentialConfig config;
  const std::size_t tasks;
  ExposureRows rows;
  std::vector<RunPool::Record> group;
  bool finished = false;
  std::optional<RunPool> pool;  // last: its threads use none of the above, but end first

  Impl(const ExampleSchema& schema, const PrequentialConfig& c)
      : decoder(schema), config(c), tasks(schema.tasks.size()), rows(tasks) {}

  base::Result<void> add(const features::Example& example, RunPool::Kind kind) {
    SF_CHECK(!finished);
    SF_ASSIGN(DecodedExample decoded, decoder.decode(example));
    if (config.shuffle_times_seed) shuffle_history_times(decoded, *config.shuffle_times_seed);
    if (kind == RunPool::Kind::kClosed) rows.on_closed(decoded);
    if (kind == RunPool::Kind::kExposure) rows.on_exposure(decoded);
    group.push_back({kind, std::make_shared<const DecodedExample>(std::move(decoded))});
    if (group.size() >= config.group_examples) hand_over();
    return {};
  }
  void hand_over() {
    if (group.empty()) return;
    pool->push(std::make_shared<const std::vector<RunPool::Record>>(std::move(group)));
    group = {};
    group.reserve(config.group_examples);
  }
};

namespace {

/// Drops the rows whose window never closed, and their logits.
void keep_closed(PrequentialOutcome& outcome, std::size_t tasks) {
  std::vector<std::vector<float>*> columns;
  for (PrequentialResult& result : outcome.results) {
    columns.push_back(&result.logits);
    if (!result.frozen_logits.empty()) columns.push_back(&result.frozen_logits);
  }
  for (const auto* column : columns) SF_CHECK(column->size() == outcome.rows.size() * tasks);
  std::size_t kept = 0;
  for (std::size_t i = 0; i < outcome.rows.size(); ++i) {
    if (!ExposureRows::closed(outcome.rows[i])) continue;
    if (kept != i) {
      outcome.rows[kept] = std::move(outcome.rows[i]);
      for (auto* column : columns) {
        for (std::size_t k = 0; k < tasks; ++k) {
          (*column)[kept * tasks + k] = (*column)[i * tasks + k];
        }
      }
    }
    ++kept;
  }
  outcome.unmatched = outcome.rows.size() - kept;
  outcome.rows.resize(kept);
  for (auto* column : columns) column->resize(kept * tasks);
}

}  // namespace

base::Result<std::unique_ptr<Prequential>> Prequential::create(
    const ExampleSchema& schema, const std::vector<PrequentialRun>& runs,
    const PrequentialConfig& config) {
  if (runs.empty() || config.group_examples == 0 || config.queue_entries_max == 0 ||
      config.score_pending_max == 0) {
    return base::fail(base::ErrorCode::kInvalidArgument,
                      "a prequential pass needs at least one run, and limits above 0");
  }
  auto impl = std::make_unique<Impl>(schema, config);
  std::vector<PrequentialPass> passes;
  for (const PrequentialRun& run : runs) {
    SF_CHECK(run.start != nullptr);
    SF_ASSIGN(auto trainer, OnlineTrainer::create(*run.start, run.step));
    passes.emplace_back(run.name, std::move(trainer), config.score_pending_max);
  }
  impl->pool.emplace(std::move(passes), config.threads, config.queue_entries_max);
  return std::unique_ptr<Prequential>(new Prequential(std::move(impl)));
}

Prequential::Prequential(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Prequential::~Prequential() = default;

base::Result<void> Prequential::on_exposure(const features::Example& example) {
  return impl_->add(example, RunPool::Kind::kExposure);
}

base::Result<void> Prequential::on_frozen(const features::Example& example) {
  return impl_->add(example, RunPool::Kind::kFrozen);
}

base::Result<void> Prequential::on_closed(const features::Example& example) {
  return impl_->add(example, RunPool::Kind::kClosed);
}

base::Result<PrequentialOutcome> Prequential::finish() {
  SF_CHECK(!impl_->finished);
  impl_->hand_over();
  impl_->finished = true;
  PrequentialOutcome outcome;
  outcome.results = impl_->pool->finish();
  for (const PrequentialResult& result : outcome.results) {
    if (result.not_finite == 0) continue;
    return base::fail(base::ErrorCode::kInternal,
                      "{}: {} predictions are not finite: with these settings the model overflows",
                      result.name, result.not_finite);
  }
  outcome.rows = impl_->rows.take();
  keep_closed(outcome, impl_->tasks);
  return outcome;
}

const model::Model& Prequential::model(std::size_t index) const {
  SF_CHECK(impl_->finished);
  return impl_->pool->trainer(index).model();
}

}  // namespace sirenfeed::trainer
