#pragma once
// The counter tower: MLP(64, 64) on ĉ alone, SiLU between its layers. It never sees ids, so past
// examples may be replayed into it; its loss and optimiser are its own (trainer/tower_trainer.h).
#include <span>

#include "model/linear.h"
#include "model/matrix.h"
#include "model/model.h"

namespace sirenfeed::model {

template <class T>
class CounterTower {
 public:
  struct State {
    Matrix<T> input;  // ĉ [rows, F + F_t], filled by the caller
    Matrix<T> gate0;
    Matrix<T> hidden0;
    Matrix<T> gate1;
    Matrix<T> hidden1;
    Matrix<T> z;  // [rows, K]
    Matrix<T> d_hidden;
    Matrix<T> d_before;
    Matrix<T> transposed;
  };

  CounterTower() = default;
  /// The tensors counter.{0,1,2}.{weight,bias} of the layout, which must have them.
  explicit CounterTower(const ParameterLayout& layout);

  [[nodiscard]] std::size_t in() const { return layer0_.in(); }

  /// state.input → state.z. `dense` is what the layout's offsets point into.
  void forward(const T* dense, State& state) const;
  /// d_dense += … for the last forward(); d_z [rows, K].
  void backward(const T* dense, State& state, View<const T> d_z, T* d_dense) const;

 private:
  Linear<T> layer0_;
  Linear<T> layer1_;
  Linear<T> layer2_;
};

/// The tower's tensors alone, with offsets from 0: for its own optimiser. `begin` is where they
/// start in `layout`'s buffer, in which they lie together.
struct TowerLayout {
  ParameterLayout layout;
  std::size_t begin = 0;
};
[[nodiscard]] TowerLayout counter_layout(const ParameterLayout& layout);

extern template class CounterTower<float>;
extern template class CounterTower<double>;

}  // namespace sirenfeed::model
