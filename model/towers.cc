#include "model/towers.h"

#include <algorithm>

#include "base/check.h"
#include "model/standardise.h"

namespace sirenfeed::model {

template <class T>
Towers<T>::Towers(const ModelConfig& config, const ParameterLayout& layout)
    : width_(config.context_row_width()), n_tasks_(config.n_tasks()) {
  if (config.has_counter_tower()) counter_.emplace(layout, kCounterTowerPrefix);
  if (config.has_cross_tower()) cross_.emplace(config);
  for (const std::string& task : config.tasks) {
    const auto& chosen = config.tower_tasks;
    averaged_.push_back(chosen.empty() ||
                        std::find(chosen.begin(), chosen.end(), task) != chosen.end());
  }
}

template <class T>
TowerLogits<T> Towers<T>::mean(const BasicModel<T>& model, std::span<const Slate* const> chunk,
                               std::span<const T> transformer, State& state) const {
  TowerLogits<T> logits{transformer, {}, {}};
  if (!counter_ && !cross_) return logits;
  const std::size_t rows = transformer.size() / n_tasks_;
  if (counter_) {
    state.counter.input.resize(rows, width_);
    std::size_t row = 0;
    for (const Slate* slate : chunk) {
      for (std::size_t c = 0; c < slate->candidates.size(); ++c, ++row) {
        standardise(model.statistics, slate->context.data() + c * width_, width_,
                    state.counter.input.row(row));
      }
    }
    SF_CHECK(row == rows);
    state.counter_z.resize(rows, n_tasks_);
    counter_->infer(model.dense.data(), state.counter, state.counter_z.view());
    logits.counter = {state.counter_z.data(), state.counter_z.size()};
  }
  if (cross_) {
    state.cross.resize_zero(rows, n_tasks_);
    std::size_t row = 0;
    for (const Slate* slate : chunk) {
      for (std::size_t c = 0; c < slate->candidates.size(); ++c, ++row) {
        state.keys.clear();
        cross_->append_keys(model.statistics, *slate, c, state.keys);
        add_cross_weights(model.cross, state.keys, state.cross.row(row));
      }
    }
    logits.cross = {state.cross.data(), state.cross.size()};
  }
  state.mean.resize(rows, n_tasks_);
  const T share = T{1} / static_cast<T>(1 + (counter_ ? 1 : 0) + (cross_ ? 1 : 0));
  T* mean = state.mean.data();
  for (std::size_t i = 0; i < transformer.size(); ++i) {
    T sum = transformer[i];
    if (!averaged_[i % n_tasks_]) {
      mean[i] = sum;
      continue;
    }
    if (counter_) sum += logits.counter[i];
    if (cross_) sum += logits.cross[i];
    mean[i] = share * sum;
  }
  logits.mean = {mean, transformer.size()};
  return logits;
}

template class Towers<float>;
template class Towers<double>;

}  // namespace sirenfeed::model
