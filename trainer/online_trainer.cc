#include "trainer/online_trainer.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <unordered_map>
#include <utility>

#include "base/check.h"
#include "base/hash.h"
#include "base/log.h"
#include "model/calibration.h"
#include "model/model.h"
#include "model/ranker.h"
#include "trainer/batch_gradient.h"
#include "trainer/byte_io.h"
#include "trainer/calibrator.h"
#include "trainer/isotonic_calibrator.h"
#include "trainer/optimizer.h"
#include "trainer/row_admission.h"
#include "trainer/running_statistics.h"
#include "trainer/tower_trainer.h"

namespace sirenfeed::trainer {

namespace {

constexpr base::UnixMs kNoTime = std::numeric_limits<base::UnixMs>::min();

struct Counts {
  std::uint64_t examples = 0;
  std::uint64_t batches = 0;
  std::uint64_t batches_skipped = 0;
  base::UnixMs newest_ms = kNoTime;         // of the learned exposures
  base::UnixMs expiry_looked_ms = kNoTime;  // newest_ms when expired rows were last looked for
};

bool rows_within(const BatchResult& result, double bound) {
  const auto most = static_cast<float>(bound);
  for (const TableGradient& table : result.tables) {
    for (const float g : table.rows) {
      if (!(std::abs(g) <= most)) return false;
    }
  }
  return true;
}

std::vector<WindowFigures> figures(const std::vector<MetricWindow>& windows) {
  std::vector<WindowFigures> all;
  all.reserve(windows.size());
  for (const MetricWindow& window : windows) all.push_back(window.figures());
  return all;
}

}  // namespace

struct OnlineTrainer::Impl {
  StepConfig config;
  model::Model model;
  std::unique_ptr<const model::Ranker> ranker;
  BatchGradient gradient;
  Adam adam;
  std::vector<RowAdagrad> rows;  // a table
  RowAdmission admission;
  RunningStatistics statistics;
  Calibrator calibrator;
  IsotonicCalibrator isotonic;
  TowerTrainer towers;
  std::vector<MetricWindow> windows;          // a task
  std::vector<MetricWindow> counter_windows;  // likewise; empty without the counter tower
  // Cells that a correction may still turn: their task and number in its windows.
  std::unordered_map<std::uint64_t, std::pair<std::size_t, std::uint64_t>> fake_negatives;
  Counts counts;

  Impl(const model::Model& start, const StepConfig& step, std::unique_ptr<const model::Ranker> made)
      : config(step),
        model(start),
        ranker(std::move(made)),
        gradient(*ranker, config.loss, config.chunk_examples, config.threads),
        adam(model.layout, config.optimizer),
        rows(model::kTableCount, RowAdagrad(config.optimizer)),
        admission(config.row_admission_examples, model.config),
        statistics(model.config, config.statistics_weight_min),
        calibrator(model.config.n_tasks(), config.optimizer),
        isotonic(model.calibration, config.optimizer),
        towers(model, config),
        windows(model.config.n_tasks(), MetricWindow(config.metric_window_cells)),
        counter_windows(model.config.has_counter_tower() ? windows : std::vector<MetricWindow>{}) {
    for (std::size_t t = 0; t < model::kTableCount; ++t) {
      rows[t].cover(model.tables[t], model.config.time_reference_ms);
    }
  }

  void step(const BatchResult& result, double norm, base::UnixMs now_ms, StepReport& report);
  void make_room(std::size_t table, std::span<const model::Key> keys, StepReport& report);
  void note_scores(std::span<const DecodedExample* const> batch, const BatchResult& result);
  void remember_cell(const DecodedExample& example, std::size_t cell, std::size_t task);
  void relabel(const DecodedExample& example);
  void expire_rows(StepReport& report);
};

base::Result<std::unique_ptr<OnlineTrainer>> OnlineTrainer::create(const model::Model& start,
                                                                   const StepConfig& config) {
  SF_TRY(config.validate());
  SF_TRY(config.loss.validate(start.config.n_tasks()));
  const bool isotonic = config.optimizer.calibration == CalibrationKind::kIsotonic;
  if (isotonic == start.calibration.knot_x.empty()) {
    return base::fail(base::ErrorCode::kInvalidArgument,
                      "calibration is {}, but the model has {} isotonic knots",
                      calibration_name(config.optimizer.calibration), start.config.isotonic_knots);
  }
  SF_ASSIGN(auto ranker, model::make_ranker(start.config));
  return std::unique_ptr<OnlineTrainer>(
      new OnlineTrainer(std::make_unique<Impl>(start, config, std::move(ranker))));
}

OnlineTrainer::OnlineTrainer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
OnlineTrainer::~OnlineTrainer() = default;

// Adam on the dense tensors, Adagrad on the touched rows; makes rows on their first example, or
// when they were seen often enough.
void OnlineTrainer::Impl::step(const BatchResult& result, double norm, base::UnixMs now_ms,
                               StepReport& report) {
  adam.step(model.dense, result.dense, norm);
  for (std::size_t t = 0; t < model::kTableCount; ++t) {
    const TableGradient& gradient = result.tables[t];
    model::EmbeddingTable& table = model.tables[t];
    const std::size_t width = table.width();
    if (table.size() + gradient.keys.size() > config.rows_max) make_room(t, gradient.keys, report);
    for (std::size_t i = 0; i < gradient.keys.size(); ++i) {
      const model::Key key = gradient.keys[i];
      std::uint32_t index = table.index_of(key);
      if (index == model::kNoRow) {
        if (table.size() >= config.rows_max || !admission.admits(t, key)) continue;
        index = table.find_or_create(key);
      }
      rows[t].step(table, index, std::span(gradient.rows).subspan(i * width, width), now_ms);
      ++report.rows;
    }
  }
}

// The batch's own rows stay: they are the newest, though their last step is an old one.
void OnlineTrainer::Impl::make_room(std::size_t table, std::span<const model::Key> keys,
                                    StepReport& report) {
  std::size_t fresh = 0;
  for (const model::Key key : keys) {
    if (model.tables[table].index_of(key) == model::kNoRow && admission.admits(table, key)) ++fresh;
  }
  const std::size_t wanted = model.tables[table].size() + fresh;
  if (wanted <= config.rows_max) return;
  const std::size_t share = static_cast<std::size_t>(config.rows_max) / 16;
  const std::size_t evicted =
      rows[table].evict(model.tables[table], std::max(share, wanted - config.rows_max), keys);
  report.evicted[table] += evicted;
  base::log_info("table {} is full (rows_max {}): {} rows unseen longest evicted",
                 model.tables[table].name(), config.rows_max, evicted);
}

namespace {

std::uint64_t cell_hash(const ExampleIdentity& identity, std::size_t cell) {
  const std::array<std::int64_t, 4> parts = {identity.impression_partition,
                                             identity.impression_offset, identity.part,
                                             static_cast<std::int64_t>(cell)};
  return base::xxh3_64({reinterpret_cast<const char*>(parts.data()), sizeof parts});
}

}  // namespace

// A fake negative's score was made before it was learned; its label may come later. Not in the
// checkpoint: after a restart, positives of earlier examples are missing in the metrics.
void OnlineTrainer::Impl::remember_cell(const DecodedExample& example, std::size_t cell,
                                        std::size_t task) {
  const std::size_t cells_max = config.metric_window_cells * windows.size();
  if (fake_negatives.size() >= 2 * cells_max) {
    std::erase_if(fake_negatives, [&](const auto& entry) {
      const auto& [k, n] = entry.second;
      return windows[k].cells_total() - n > config.metric_window_cells;
    });
  }
  fake_negatives[cell_hash(example.identity, cell)] = {task, windows[task].cells_total()};
}

void OnlineTrainer::Impl::relabel(const DecodedExample& example) {
  for (std::size_t cell = 0; cell < example.labels.weight.size(); ++cell) {
    if (example.labels.weight[cell] == 0) continue;
    const auto found = fake_negatives.find(cell_hash(example.identity, cell));
    if (found == fake_negatives.end()) continue;
    const auto& [task, n] = found->second;
    windows[task].relabel(n);
    if (!counter_windows.empty()) counter_windows[task].relabel(n);
    fake_negatives.erase(found);
  }
}

// Progressive metrics, calibration and running statistics of the batch, in its order. A correction
// was scored and counted when it was revision 0.
void OnlineTrainer::Impl::note_scores(std::span<const DecodedExample* const> batch,
                                      const BatchResult& result) {
  const std::size_t tasks = model.config.n_tasks();
  const CalibrationKind kind = config.optimizer.calibration;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const DecodedExample& example = *batch[i];
    const bool correction = example.labels.correction;
    if (correction && !example.labels.fake_negatives) continue;
    const std::size_t begin = result.row_begin[i] * tasks;
    const auto z = std::span(result.mean).subspan(begin, result.row_begin[i + 1] * tasks - begin);
    if (kind == CalibrationKind::kScaleBias) calibrator.add(model.calibration, z, example.labels);
    if (kind == CalibrationKind::kIsotonic) isotonic.add(model.calibration, z, example.labels);
    if (correction) {
      relabel(example);
      continue;
    }
    for (std::size_t cell = 0; cell < z.size(); ++cell) {
      if (example.labels.weight[cell] == 0) continue;
      const std::size_t k = cell % tasks;
      const bool label = example.labels.label[cell] > 0.5F;
      const double logit = model::calibrated(model.calibration, k, z[cell]);
      if (example.labels.fake_negatives) remember_cell(example, cell, k);
      windows[k].add(static_cast<float>(model::sigmoid(logit)), label);
      if (counter_windows.empty()) continue;
      counter_windows[k].add(static_cast<float>(model::sigmoid(result.counter[begin + cell])),
                             label);
    }
    statistics.add(example.slate);
  }
  if (kind == CalibrationKind::kScaleBias) calibrator.step(model.calibration);
  if (kind == CalibrationKind::kIsotonic) isotonic.step(model.calibration);
  statistics.write_to(model.statistics);
}

void OnlineTrainer::Impl::expire_rows(StepReport& report) {
  if (config.row_expiry_days <= 0) return;
  if (counts.expiry_looked_ms == kNoTime) counts.expiry_looked_ms = counts.newest_ms;
  if (counts.newest_ms - counts.expiry_looked_ms < base::kMsPerDay) return;
  counts.expiry_looked_ms = counts.newest_ms;
  const auto keep_ms =
      static_cast<base::UnixMs>(config.row_expiry_days * static_cast<double>(base::kMsPerDay));
  for (std::size_t t = 0; t < model::kTableCount; ++t) {
    report.expired += rows[t].expire(model.tables[t], counts.newest_ms - keep_ms);
  }
  if (report.expired > 0) {
    base::log_info("{} rows unseen for {} days expired", report.expired, config.row_expiry_days);
  }
}

StepReport OnlineTrainer::learn(std::span<const DecodedExample* const> batch) {
  SF_CHECK(!batch.empty());
  Impl& impl = *impl_;
  const base::UnixMs reference_before = impl.model.config.time_reference_ms;
  if (reference_before == 0) impl.model.config.time_reference_ms = batch[0]->slate.time_ms;
  const BatchResult& result = impl.gradient.compute(impl.model, batch);
  StepReport report{.loss = result.loss};
  const double norm =
      result.finite ? impl.adam.norm(result.dense) : std::numeric_limits<double>::quiet_NaN();
  report.gradient_norm = norm;
  const double norm_max = impl.config.optimizer.gradient_norm_max;
  if (!(norm <= norm_max) || !rows_within(result, norm_max) ||
      !impl.towers.prepare(impl.model, batch)) {
    impl.model.config.time_reference_ms = reference_before;
    ++impl.counts.batches_skipped;
    base::log_error(
        "batch skipped: its loss {} or a gradient (dense norm {}) is not finite or above "
        "trainer.gradient_norm_max; first example: partition {} epoch {} sequence {}",
        result.loss, norm, batch[0]->partition, batch[0]->epoch, batch[0]->sequence);
    return report;
  }
  base::UnixMs newest_ms = kNoTime;
  for (const DecodedExample* example : batch) {
    newest_ms = std::max(newest_ms, example->slate.time_ms);
  }
  report.learned = true;
  impl.admission.count(impl.model, batch);
  impl.step(result, norm, newest_ms, report);
  impl.note_scores(batch, result);
  impl.towers.commit(impl.model, batch);
  impl.counts.examples += batch.size();
  ++impl.counts.batches;
  impl.counts.newest_ms = std::max(impl.counts.newest_ms, newest_ms);
  model::shift_time_reference(impl.model, impl.counts.newest_ms);
  impl.expire_rows(report);
  return report;
}

void OnlineTrainer::score(std::span<const model::Slate* const> slates, std::vector<float>& logits) {
  impl_->gradient.score(impl_->model, slates, logits);
  model::calibrate(impl_->model.calibration, logits);
}

const model::Model& OnlineTrainer::model() const { return impl_->model; }
const StepConfig& OnlineTrainer::config() const { return impl_->config; }
std::uint64_t OnlineTrainer::examples() const { return impl_->counts.examples; }
std::uint64_t OnlineTrainer::batches() const { return impl_->counts.batches; }
std::uint64_t OnlineTrainer::batches_skipped() const { return impl_->counts.batches_skipped; }

std::vector<WindowFigures> OnlineTrainer::progressive() const { return figures(impl_->windows); }

std::vector<WindowFigures> OnlineTrainer::counter_progressive() const {
  return figures(impl_->counter_windows);
}

const std::vector<MetricWindow>& OnlineTrainer::windows() const { return impl_->windows; }
const std::vector<MetricWindow>& OnlineTrainer::counter_windows() const {
  return impl_->counter_windows;
}

void TrainerState::append_to(std::string& bytes) const {
  bytes += before_tables_;
  for (std::size_t t = 0; t < model::kTableCount; ++t) rows_[t].append_to(bytes, tables_[t]);
  bytes += after_tables_;
}

void OnlineTrainer::append_to(std::string& bytes) const { state().append_to(bytes); }

TrainerState OnlineTrainer::state() const {
  const Impl& impl = *impl_;
  TrainerState state;
  std::string& bytes = state.before_tables_;
  put(bytes, impl.counts);
  put(bytes, impl.model.config.time_reference_ms);
  put_vector(bytes, impl.model.dense);
  put_vector(bytes, impl.model.calibration.scale);
  put_vector(bytes, impl.model.calibration.bias);
  put_vector(bytes, impl.model.calibration.knot_y);
  impl.adam.append_to(bytes);
  state.tables_ = impl.model.tables;
  state.rows_ = impl.rows;
  std::string& after = state.after_tables_;
  impl.statistics.append_to(after);
  impl.calibrator.append_to(after);
  impl.isotonic.append_to(after);
  impl.towers.append_to(after, impl.model);
  for (const MetricWindow& window : impl.windows) window.append_to(after);
  for (const MetricWindow& window : impl.counter_windows) window.append_to(after);
  impl.admission.append_to(after);
  return state;
}

base::Result<void> OnlineTrainer::restore(std::string_view bytes) {
  Impl& impl = *impl_;
  model::ModelConfig config = impl.model.config;
  SF_TRY(take(bytes, impl.counts, "counts"));
  SF_TRY(take(bytes, config.time_reference_ms, "time reference"));
  SF_ASSIGN(model::Model model, model::make_model(config));
  const auto take_same_size = [&bytes](std::vector<float>& to,
                                       const char* what) -> base::Result<void> {
    const std::size_t expected = to.size();
    SF_TRY(take_vector(bytes, to, what));
    if (to.size() == expected) return {};
    return base::fail(base::ErrorCode::kCorrupt, "{} has {} elements, expected {}", what, to.size(),
                      expected);
  };
  SF_TRY(take_same_size(model.dense, "dense parameters"));
  SF_TRY(take_same_size(model.calibration.scale, "calibration"));
  SF_TRY(take_same_size(model.calibration.bias, "calibration"));
  SF_TRY(take_same_size(model.calibration.knot_y, "calibration"));
  SF_TRY(impl.adam.restore(bytes));
  for (std::size_t t = 0; t < model::kTableCount; ++t) {
    SF_TRY(impl.rows[t].restore(bytes, model.tables[t]));
  }
  SF_TRY(impl.statistics.restore(bytes));
  SF_TRY(impl.calibrator.restore(bytes));
  SF_TRY(impl.isotonic.restore(bytes));
  SF_TRY(impl.towers.restore(bytes, model));
  for (std::vector<MetricWindow>* windows : {&impl.windows, &impl.counter_windows}) {
    for (MetricWindow& window : *windows) {
      SF_ASSIGN(window, MetricWindow::restore(bytes, impl.config.metric_window_cells));
    }
  }
  SF_TRY(impl.admission.restore(bytes));
  if (!bytes.empty()) {
    return base::fail(base::ErrorCode::kCorrupt, "{} bytes too many", bytes.size());
  }
  // A model that was never trained keeps the statistics of its start.
  if (impl.statistics.examples() > 0) impl.statistics.write_to(model.statistics);
  impl.model = std::move(model);
  return {};
}

}  // namespace sirenfeed::trainer
