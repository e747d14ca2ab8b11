#include "model/layer_norm.h"

#include "model/kernels.h"

namespace sirenfeed::model {

template <class T>
LayerNorm<T>::LayerNorm(const ParameterLayout& layout, const std::string& prefix)
    : weight_(layout.offset(prefix + ".weight")), bias_(layout.offset(prefix + ".bias")) {}

template <class T>
void LayerNorm<T>::forward(const T* dense, View<const T> x, State& state, View<T> y) const {
  state.normalised.resize(x.rows, x.cols);
  state.inverse_std.resize(x.rows);
  kernels<T>().norm_forward({x.rows, x.cols, dense + weight_, dense + bias_, x.data, x.stride,
                             y.data, y.stride, state.normalised.data(), state.inverse_std.data(),
                             nullptr, nullptr});
}

template <class T>
void LayerNorm<T>::infer(const T* dense, View<const T> x, View<T> y) const {
  kernels<T>().norm_forward({x.rows, x.cols, dense + weight_, dense + bias_, x.data, x.stride,
                             y.data, y.stride, nullptr, nullptr, nullptr, nullptr});
}

template <class T>
void LayerNorm<T>::backward(const T* dense, State& state, View<const T> d_y, T* d_dense,
                            View<T> d_x) const {
  kernels<T>().norm_backward({d_y.rows, d_y.cols, dense + weight_, dense + bias_, d_y.data,
                              d_y.stride, d_x.data, d_x.stride, state.normalised.data(),
                              state.inverse_std.data(), d_dense + weight_, d_dense + bias_});
}

template class LayerNorm<float>;
template class LayerNorm<double>;

}  // namespace sirenfeed::model
