#include "model/perceptron.h"

#include "model/kernels.h"
#include "model/vector_math.h"

namespace sirenfeed::model {

template <class T>
Perceptron<T>::Perceptron(const ParameterLayout& layout, const std::string& prefix)
    : layer0_(layout, prefix + ".0"),
      layer1_(layout, prefix + ".1"),
      layer2_(layout, prefix + ".2") {}

template <class T>
void Perceptron<T>::forward(const T* dense, State& state, View<T> z) const {
  const std::size_t rows = state.input.rows();
  for (Matrix<T>* matrix : {&state.gate0, &state.hidden0}) matrix->resize(rows, layer0_.out());
  for (Matrix<T>* matrix : {&state.gate1, &state.hidden1}) matrix->resize(rows, layer1_.out());
  layer0_.forward(dense, state.input.view(), state.gate0.view());
  silu_of(state.gate0.data(), state.gate0.data(), state.hidden0.data(), state.hidden0.size());
  layer1_.forward(dense, state.hidden0.view(), state.gate1.view());
  silu_of(state.gate1.data(), state.gate1.data(), state.hidden1.data(), state.hidden1.size());
  layer2_.forward(dense, state.hidden1.view(), z);
}

template <class T>
void Perceptron<T>::infer(const T* dense, State& state, View<T> z) const {
  state.hidden0.resize(state.input.rows(), layer0_.out());
  state.hidden1.resize(state.input.rows(), layer1_.out());
  layer0_.forward(dense, state.input.view(), state.hidden0.view());
  kernels<T>().silu_alone(state.hidden0.data(), state.hidden0.data(), state.hidden0.size());
  layer1_.forward(dense, state.hidden0.view(), state.hidden1.view());
  kernels<T>().silu_alone(state.hidden1.data(), state.hidden1.data(), state.hidden1.size());
  layer2_.forward(dense, state.hidden1.view(), z);
}

template <class T>
void Perceptron<T>::backward(const T* dense, State& state, View<const T> d_z, T* d_dense,
                             View<T> d_input) const {
  const std::size_t rows = state.input.rows();
  state.d_hidden.resize(rows, layer1_.out());
  state.d_before.resize(rows, layer1_.out());
  layer2_.backward(dense, state.hidden1.view(), d_z, d_dense, state.d_hidden.view(), {},
                   state.transposed);
  silu_backward(state.gate1.data(), state.hidden1.data(), state.d_hidden.data(),
                state.d_before.data(), state.d_before.size());
  state.d_hidden.resize(rows, layer0_.out());
  layer1_.backward(dense, state.hidden0.view(), state.d_before.view(), d_dense,
                   state.d_hidden.view(), {}, state.transposed);
  state.d_before.resize(rows, layer0_.out());
  silu_backward(state.gate0.data(), state.hidden0.data(), state.d_hidden.data(),
                state.d_before.data(), state.d_before.size());
  layer0_.backward(dense, state.input.view(), state.d_before.view(), d_dense, d_input, {},
                   state.transposed);
}

template class Perceptron<float>;
template class Perceptron<double>;

}  // namespace sirenfeed::model
