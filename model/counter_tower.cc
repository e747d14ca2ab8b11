#include "model/counter_tower.h"

#include "base/check.h"
#include "model/vector_math.h"

namespace sirenfeed::model {

template <class T>
CounterTower<T>::CounterTower(const ParameterLayout& layout)
    : layer0_(layout, "counter.0"), layer1_(layout, "counter.1"), layer2_(layout, "counter.2") {}

template <class T>
void CounterTower<T>::forward(const T* dense, State& state) const {
  const std::size_t rows = state.input.rows();
  for (Matrix<T>* matrix : {&state.gate0, &state.hidden0}) matrix->resize(rows, layer0_.out());
  for (Matrix<T>* matrix : {&state.gate1, &state.hidden1}) matrix->resize(rows, layer1_.out());
  state.z.resize(rows, layer2_.out());
  layer0_.forward(dense, state.input.view(), state.gate0.view());
  silu_of(state.gate0.data(), state.gate0.data(), state.hidden0.data(), state.hidden0.size());
  layer1_.forward(dense, state.hidden0.view(), state.gate1.view());
  silu_of(state.gate1.data(), state.gate1.data(), state.hidden1.data(), state.hidden1.size());
  layer2_.forward(dense, state.hidden1.view(), state.z.view());
}

template <class T>
void CounterTower<T>::backward(const T* dense, State& state, View<const T> d_z, T* d_dense) const {
  const std::size_t rows = state.input.rows();
  state.d_hidden.resize(rows, layer1_.out());
  state.d_before.resize(rows, layer1_.out());
  layer2_.backward(dense, state.hidden1.view(), d_z, d_dense, state.d_hidden.view(), {},
                   state.transposed);
  silu_backward(state.gate1.data(), state.hidden1.data(), state.d_hidden.data(),
                state.d_before.data(), state.d_before.size());
  layer1_.backward(dense, state.hidden0.view(), state.d_before.view(), d_dense,
                   state.d_hidden.view(), {}, state.transposed);
  silu_backward(state.gate0.data(), state.hidden0.data(), state.d_hidden.data(),
                state.d_before.data(), state.d_before.size());
  layer0_.backward(dense, state.input.view(), state.d_before.view(), d_dense, View<T>{}, {},
                   state.transposed);
}

TowerLayout counter_layout(const ParameterLayout& layout) {
  TowerLayout own;
  for (const TensorSpec& spec : layout.tensors) {
    if (!spec.name.starts_with("counter.")) continue;
    if (own.layout.tensors.empty()) own.begin = spec.offset;
    SF_CHECK(spec.offset == own.begin + own.layout.size);
    TensorSpec moved = spec;
    moved.offset = own.layout.size;
    moved.trained = true;
    own.layout.size += spec.size;
    own.layout.tensors.push_back(std::move(moved));
  }
  return own;
}

template class CounterTower<float>;
template class CounterTower<double>;

}  // namespace sirenfeed::model
