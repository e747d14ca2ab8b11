#pragma once
// The towers beside the transformer, and the one place where the logits of all towers meet: z is
// their mean. Each tower is trained on its own BCE; no gradient passes through the mean.
#include <optional>
#include <span>
#include <vector>

#include "model/counter_tower.h"
#include "model/cross_tower.h"
#include "model/matrix.h"
#include "model/model.h"

namespace sirenfeed::model {

/// Logits before calibration, [rows, K].
template <class T>
struct TowerLogits {
  std::span<const T> mean;     // over the towers: what is calibrated, served and measured
  std::span<const T> counter;  // the counter tower's own; empty without it
  std::span<const T> cross;    // likewise
};

/// Const and thread-safe; mutable memory is in the State.
template <class T>
class Towers {
 public:
  struct State {
    typename Perceptron<T>::State counter;
    Matrix<T> counter_z;
    std::vector<Key> keys;
    Matrix<T> cross;
    Matrix<T> mean;
  };

  Towers(const ModelConfig& config, const ParameterLayout& layout);

  /// A task that config.tower_tasks leaves out keeps the transformer's z as its mean.
  /// `transformer` [rows, K]: its z for the chunk's candidates. Without other towers the mean is
  /// `transformer` itself. The result points into `state`.
  TowerLogits<T> mean(const BasicModel<T>& model, std::span<const Slate* const> chunk,
                      std::span<const T> transformer, State& state) const;

 private:
  std::size_t width_;  // F + F_t
  std::size_t n_tasks_;
  std::vector<bool> averaged_;  // a task: whether the towers take part
  std::optional<Perceptron<T>> counter_;
  std::optional<CrossFeatures> cross_;
};

extern template class Towers<float>;
extern template class Towers<double>;

}  // namespace sirenfeed::model
