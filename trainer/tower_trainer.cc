#include "trainer/tower_trainer.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/check.h"
#include "model/counter_tower.h"
#include "model/cross_tower.h"
#include "model/key_index.h"
#include "model/standardise.h"
#include "trainer/byte_io.h"
#include "trainer/optimizer.h"
#include "trainer/replay_buffer.h"

namespace sirenfeed::trainer {

namespace {

constexpr std::size_t kQuantileRowsMax = 4096;  // behind each estimate of the cross tower's edges
constexpr std::uint64_t kQuantileFirstRows = 1024;

OptimizerConfig counter_optimizer(const StepConfig& config) {
  OptimizerConfig own = config.optimizer;
  own.dense_rate = config.towers.counter_rate;
  own.dense_rate_schedule = RateSchedule::kConstant;
  return own;
}

std::size_t rows_of(std::span<const DecodedExample* const> batch) {
  std::size_t rows = 0;
  for (const DecodedExample* example : batch) rows += example->slate.candidates.size();
  return rows;
}

}  // namespace

/// The steps are made on copies of parameters and optimiser; commit() swaps them in.
struct TowerTrainer::Counter {
  model::TowerLayout own;
  model::Perceptron<float> tower;
  model::Perceptron<float>::State state;
  model::Matrix<float> z;  // of the rows in state
  model::LossConfig loss;
  std::uint32_t replay_batches;
  double norm_max;
  Adam adam;
  Adam staged_adam;
  ReplayBuffer::Random staged_random;
  std::vector<float> staged;
  std::vector<float> gradient;
  std::vector<float> d_z;
  model::SlateLabels replayed;

  Counter(const model::Model& start, const StepConfig& config)
      : own(model::counter_layout(start.layout)),
        tower(own.layout, model::kCounterTowerPrefix),
        loss(config.loss),
        replay_batches(config.towers.replay_batches),
        norm_max(config.optimizer.gradient_norm_max),
        adam(own.layout, counter_optimizer(config)),
        staged_adam(adam) {
    loss.pairwise_weight = 0;  // the pairwise term is the transformer's
  }

  bool prepare(const model::Model& model, std::span<const DecodedExample* const> batch,
               const ReplayBuffer& replay);
  bool learn_batch(const model::Model& model, std::span<const DecodedExample* const> batch);
  bool learn_replayed(const model::Model& model, const ReplayBuffer& replay, std::size_t rows);
  bool descend(double loss_value);
  [[nodiscard]] std::span<float> parameters(model::Model& model) const {
    return std::span(model.dense).subspan(own.begin, own.layout.size);
  }
};

// One step from d_z of the rows in state.
bool TowerTrainer::Counter::descend(double loss_value) {
  gradient.assign(own.layout.size, 0.0F);
  const std::size_t tasks = z.cols();
  tower.backward(staged.data(), state, {d_z.data(), z.rows(), tasks, tasks}, gradient.data(), {});
  const double norm = staged_adam.norm(gradient);
  if (!std::isfinite(loss_value) || !(norm <= norm_max)) return false;
  staged_adam.step(staged, gradient, norm);
  return true;
}

bool TowerTrainer::Counter::learn_batch(const model::Model& model,
                                        std::span<const DecodedExample* const> batch) {
  const std::size_t width = model.config.context_row_width();
  const std::size_t tasks = model.config.n_tasks();
  state.input.resize(rows_of(batch), width);
  std::size_t row = 0;
  model::LossTerms terms;
  for (const DecodedExample* example : batch) {
    for (std::size_t c = 0; c < example->slate.candidates.size(); ++c, ++row) {
      model::standardise(model.statistics, example->slate.context.data() + c * width, width,
                         state.input.row(row));
    }
    model::count_loss_terms(example->labels, loss, terms);
  }
  z.resize(state.input.rows(), tower.out());
  tower.forward(staged.data(), state, z.view());
  d_z.resize(z.size());
  const std::span<const float> cells_z(z.data(), z.size());
  double total = 0;
  std::size_t begin = 0;
  for (const DecodedExample* example : batch) {
    const std::size_t cells = example->slate.candidates.size() * tasks;
    total += model::add_loss(cells_z.subspan(begin, cells), example->labels, loss, terms,
                             std::span(d_z).subspan(begin, cells));
    begin += cells;
  }
  return descend(total);
}

bool TowerTrainer::Counter::learn_replayed(const model::Model& model, const ReplayBuffer& replay,
                                           std::size_t rows) {
  const std::size_t width = model.config.context_row_width();
  state.input.resize(rows, width);
  replayed.label.clear();
  replayed.weight.clear();
  for (std::size_t row = 0; row < rows; ++row) {
    const std::size_t past = staged_random.below(replay.rows());
    model::standardise(model.statistics, replay.c(past).data(), width, state.input.row(row));
    const auto label = replay.label(past);
    const auto weight = replay.weight(past);
    replayed.label.insert(replayed.label.end(), label.begin(), label.end());
    replayed.weight.insert(replayed.weight.end(), weight.begin(), weight.end());
  }
  model::LossTerms terms;
  model::count_loss_terms(replayed, loss, terms);
  z.resize(state.input.rows(), tower.out());
  tower.forward(staged.data(), state, z.view());
  d_z.resize(z.size());
  return descend(model::add_loss({z.data(), z.size()}, replayed, loss, terms, d_z));
}

bool TowerTrainer::Counter::prepare(const model::Model& model,
                                    std::span<const DecodedExample* const> batch,
                                    const ReplayBuffer& replay) {
  const auto begin = model.dense.begin() + static_cast<std::ptrdiff_t>(own.begin);
  staged.assign(begin, begin + static_cast<std::ptrdiff_t>(own.layout.size));
  staged_adam = adam;
  staged_random = replay.random;
  if (!learn_batch(model, batch)) return false;
  // Before the statistics are known every ĉ is 0, and a replay would teach nothing but the bias.
  if (replay.rows() == 0 || model.statistics.context_examples < model::kContextExamplesMin) {
    return true;
  }
  const std::size_t rows = rows_of(batch);
  for (std::uint32_t i = 0; i < replay_batches; ++i) {
    if (!learn_replayed(model, replay, rows)) return false;
  }
  return true;
}

/// w −= η g/√(G₀ + Σ g²) for every weight, g the batch's sum of σ(z) − y over the rows with it.
struct TowerTrainer::Cross {
  double rate;
  double g0;
  double norm_max;
  std::vector<double> task_on;  // 0 where a task is not trained
  model::CrossFeatures features;
  std::vector<model::Key> keys;
  std::vector<float> z;
  std::vector<double> d_z;
  model::KeyIndex touched;
  std::vector<double> gradient;  // [touched, K]
  std::vector<float> square;     // Σ g² [rows of Model::cross, K]

  Cross(const model::Model& start, const StepConfig& config)
      : rate(config.towers.cross_rate),
        g0(config.towers.cross_g0),
        norm_max(config.optimizer.gradient_norm_max),
        features(start.config),
        square(start.cross.size() * start.cross.width()) {
    for (const double weight : config.loss.task_weights) task_on.push_back(weight > 0 ? 1 : 0);
  }

  bool prepare(const model::Model& model, std::span<const DecodedExample* const> batch);
  void commit(model::Model& model);
};

bool TowerTrainer::Cross::prepare(const model::Model& model,
                                  std::span<const DecodedExample* const> batch) {
  const std::size_t tasks = model.config.n_tasks();
  touched.clear();
  gradient.clear();
  for (const DecodedExample* example : batch) {
    const model::SlateLabels& labels = example->labels;
    for (std::size_t c = 0; c < example->slate.candidates.size(); ++c) {
      keys.clear();
      features.append_keys(model.statistics, example->slate, c, keys);
      z.assign(tasks, 0.0F);
      model::add_cross_weights(model.cross, keys, z.data());
      d_z.resize(tasks);
      for (std::size_t k = 0; k < tasks; ++k) {
        const std::size_t cell = c * tasks + k;
        const double error = model::cell_gradient(z[k], labels.label[cell], labels);
        d_z[k] = labels.weight[cell] == 0.0F ? 0.0 : task_on[k] * labels.weight[cell] * error;
      }
      for (const model::Key key : keys) {
        const std::size_t at = touched.find_or_add(key) * tasks;
        if (at == gradient.size()) gradient.resize(at + tasks);
        for (std::size_t k = 0; k < tasks; ++k) gradient[at + k] += d_z[k];
      }
    }
  }
  return std::all_of(gradient.begin(), gradient.end(),
                     [this](double g) { return std::abs(g) <= norm_max; });
}

void TowerTrainer::Cross::commit(model::Model& model) {
  const std::size_t tasks = model.config.n_tasks();
  for (std::size_t i = 0; i < touched.size(); ++i) {
    const std::uint32_t row = model.cross.find_or_create(touched.keys()[i]);
    if (square.size() < model.cross.size() * tasks) square.resize(model.cross.size() * tasks);
    const std::span<float> weights = model.cross.row_at(row);
    for (std::size_t k = 0; k < tasks; ++k) {
      const double g = gradient[i * tasks + k];
      float& sum = square[row * tasks + k];
      sum += static_cast<float>(g * g);
      weights[k] -= static_cast<float>(rate * g / std::sqrt(g0 + sum));
    }
  }
}

struct TowerTrainer::Impl {
  std::optional<Counter> counter;
  std::optional<Cross> cross;
  std::optional<ReplayBuffer> replay;
  std::uint64_t edges_next = kQuantileFirstRows;  // rows seen when the edges are next estimated
  std::vector<float> column;

  void remember(const model::Model& model, std::span<const DecodedExample* const> batch);
  void relabel(const DecodedExample& example, std::size_t width);
  void estimate_edges(model::Statistics& statistics);
};

TowerTrainer::TowerTrainer(const model::Model& start, const StepConfig& config)
    : impl_(std::make_unique<Impl>()) {
  const model::ModelConfig& shape = start.config;
  if (shape.has_counter_tower()) impl_->counter.emplace(start, config);
  if (shape.has_cross_tower()) impl_->cross.emplace(start, config);
  if (!impl_->counter && !impl_->cross) return;
  impl_->replay.emplace(ReplayBuffer::Shape{shape.context_row_width(), shape.n_tasks()},
                        config.towers.replay_bytes_max, config.towers.replay_admit_min, shape.seed);
}

TowerTrainer::~TowerTrainer() = default;

bool TowerTrainer::prepare(const model::Model& model,
                           std::span<const DecodedExample* const> batch) {
  if (impl_->counter && !impl_->counter->prepare(model, batch, *impl_->replay)) return false;
  return !impl_->cross || impl_->cross->prepare(model, batch);
}

void TowerTrainer::commit(model::Model& model, std::span<const DecodedExample* const> batch) {
  Impl& impl = *impl_;
  if (!impl.replay) return;
  if (impl.counter) {
    Counter& counter = *impl.counter;
    std::copy(counter.staged.begin(), counter.staged.end(), counter.parameters(model).begin());
    std::swap(counter.adam, counter.staged_adam);
    impl.replay->random = counter.staged_random;
  }
  if (impl.cross) impl.cross->commit(model);
  impl.remember(model, batch);
  if (impl.cross && impl.replay->rows_seen() >= impl.edges_next) {
    impl.estimate_edges(model.statistics);
    impl.edges_next *= 4;
  }
}

void TowerTrainer::Impl::remember(const model::Model& model,
                                  std::span<const DecodedExample* const> batch) {
  const std::size_t width = model.config.context_row_width();
  const std::size_t tasks = model.config.n_tasks();
  for (const DecodedExample* example : batch) {
    if (example->labels.correction) {
      relabel(*example, width);
      continue;
    }
    for (std::size_t c = 0; c < example->slate.candidates.size(); ++c) {
      replay->add(std::span(example->slate.context).subspan(c * width, width),
                  std::span(example->labels.label).subspan(c * tasks, tasks),
                  std::span(example->labels.weight).subspan(c * tasks, tasks));
    }
  }
}

// The row of a corrected cell is no negative any more. Its inputs are those of the exposure.
void TowerTrainer::Impl::relabel(const DecodedExample& example, std::size_t width) {
  const std::size_t tasks = example.labels.label.size() / example.slate.candidates.size();
  for (std::size_t cell = 0; cell < example.labels.label.size(); ++cell) {
    if (example.labels.weight[cell] == 0 || example.labels.label[cell] == 0) continue;
    replay->relabel(std::span(example.slate.context).subspan(cell / tasks * width, width),
                    cell % tasks);
  }
}

// Ever rarer, from ever more of the stream: a bin whose edges move means something else to the
// weight that was learned for it.
void TowerTrainer::Impl::estimate_edges(model::Statistics& statistics) {
  const std::size_t rows = std::min(replay->rows(), kQuantileRowsMax);
  const std::size_t features = statistics.cross_edges.size() / model::kCrossEdges;
  for (std::size_t f = 0; f < features; ++f) {
    column.clear();
    for (std::size_t i = 0; i < rows; ++i)
      column.push_back(replay->c(i * replay->rows() / rows)[f]);
    std::sort(column.begin(), column.end());
    for (std::size_t e = 0; e < model::kCrossEdges; ++e) {
      statistics.cross_edges[f * model::kCrossEdges + e] =
          column[(e + 1) * rows / model::kCrossBins];
    }
  }
}

void TowerTrainer::append_to(std::string& bytes, const model::Model& model) const {
  const Impl& impl = *impl_;
  if (!impl.replay) return;
  impl.replay->append_to(bytes);
  if (impl.counter) impl.counter->adam.append_to(bytes);
  if (!impl.cross) return;
  put(bytes, impl.edges_next);
  put_vector(bytes, model.statistics.cross_edges);
  put(bytes, static_cast<std::uint64_t>(model.cross.size()));
  for (std::uint32_t row = 0; row < model.cross.size(); ++row) {
    put(bytes, model.cross.key_at(row));
    for (const float weight : model.cross.row_at(row)) put(bytes, weight);
  }
  put_vector(bytes, impl.cross->square);
}

base::Result<void> TowerTrainer::restore(std::string_view& bytes, model::Model& model) {
  Impl& impl = *impl_;
  if (!impl.replay) return {};
  SF_TRY(impl.replay->restore(bytes));
  if (impl.counter) SF_TRY(impl.counter->adam.restore(bytes));
  if (!impl.cross) return {};
  SF_CHECK(model.cross.size() == 0);
  const std::size_t edges = model.statistics.cross_edges.size();
  SF_TRY(take(bytes, impl.edges_next, "cross tower"));
  SF_TRY(take_vector(bytes, model.statistics.cross_edges, "cross tower"));
  std::uint64_t rows = 0;
  SF_TRY(take(bytes, rows, "cross tower"));
  const std::size_t width = model.cross.width();
  if (rows > bytes.size() / (sizeof(model::Key) + width * sizeof(float))) {
    return cut_short("cross tower");
  }
  for (std::uint32_t row = 0; row < rows; ++row) {
    model::Key key = 0;
    SF_TRY(take(bytes, key, "cross tower"));
    if (model.cross.find_or_create(key) != row) {
      return base::fail(base::ErrorCode::kCorrupt, "cross tower has the key {} twice", key);
    }
    for (float& weight : model.cross.row_at(row)) SF_TRY(take(bytes, weight, "cross tower"));
  }
  SF_TRY(take_vector(bytes, impl.cross->square, "cross tower"));
  if (impl.cross->square.size() != rows * width || model.statistics.cross_edges.size() != edges) {
    return base::fail(base::ErrorCode::kCorrupt, "cross tower of {} rows has {} sums and {} edges",
                      rows, impl.cross->square.size(), model.statistics.cross_edges.size());
  }
  return {};
}

}  // namespace sirenfeed::trainer
