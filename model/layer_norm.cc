#include "model/layer_norm.h"

#include <cmath>

#include "model/simd.h"

namespace sirenfeed::model {

template <class T>
LayerNorm<T>::LayerNorm(const ParameterLayout& layout, const std::string& prefix)
    : weight_(layout.offset(prefix + ".weight")), bias_(layout.offset(prefix + ".bias")) {}

template <class T>
void LayerNorm<T>::forward(const T* dense, View<const T> x, State& state, View<T> y) const {
  const std::size_t width = x.cols;
  const T* weight = dense + weight_;
  const T* bias = dense + bias_;
  const T per_width = T{1} / static_cast<T>(width);
  state.normalised.resize(x.rows, width);
  state.inverse_std.resize(x.rows);
  for (std::size_t r = 0; r < x.rows; ++r) {
    const T* row = x.row(r);
    T* normalised = state.normalised.row(r);
    T* out = y.row(r);
    const T mean = sum(row, width) * per_width;
    for (std::size_t c = 0; c < width; ++c) normalised[c] = row[c] - mean;
    const T variance = dot(normalised, normalised, width) * per_width;
    const T inverse_std = T{1} / std::sqrt(variance + static_cast<T>(1e-5));
    state.inverse_std[r] = inverse_std;
    for (std::size_t c = 0; c < width; ++c) {
      normalised[c] *= inverse_std;
      out[c] = normalised[c] * weight[c] + bias[c];
    }
  }
}

template <class T>
void LayerNorm<T>::backward(const T* dense, const State& state, View<const T> d_y, T* d_dense,
                            View<T> d_x) const {
  const std::size_t width = d_y.cols;
  const T* weight = dense + weight_;
  T* d_weight = d_dense + weight_;
  T* d_bias = d_dense + bias_;
  const T per_width = T{1} / static_cast<T>(width);
  for (std::size_t r = 0; r < d_y.rows; ++r) {
    const T* d_out = d_y.row(r);
    const T* normalised = state.normalised.row(r);
    T* d_in = d_x.row(r);
    for (std::size_t c = 0; c < width; ++c) {
      d_weight[c] += d_out[c] * normalised[c];
      d_bias[c] += d_out[c];
    }
    // With g = d_y · weight: d_x = (g − mean(g) − x̂ · mean(g · x̂)) / std.
    const T mean = dot(d_out, weight, width) * per_width;
    T along{};
    {
      constexpr std::size_t kLanes = Simd<T>::kLanes;
      typename Simd<T>::Vec lanes{};
      std::size_t c = 0;
      for (; c + kLanes <= width; c += kLanes) {
        lanes += load(d_out + c) * load(weight + c) * load(normalised + c);
      }
      along = sum_lanes<T>(lanes);
      for (; c < width; ++c) along += d_out[c] * weight[c] * normalised[c];
      along *= per_width;
    }
    const T inverse_std = state.inverse_std[r];
    for (std::size_t c = 0; c < width; ++c) {
      d_in[c] += inverse_std * (d_out[c] * weight[c] - mean - normalised[c] * along);
    }
  }
}

template class LayerNorm<float>;
template class LayerNorm<double>;

}  // namespace sirenfeed::model
