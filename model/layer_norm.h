#pragma once
#include <string>
#include <vector>

#include "model/matrix.h"
#include "model/parameters.h"

namespace sirenfeed::model {

/// y = (x − mean)/√(var + 1e-5) · weight + bias, by row, biased variance.
template <class T>
class LayerNorm {
 public:
  struct State {
    Matrix<T> normalised;  // [rows, width]
    std::vector<T> inverse_std;
  };

  LayerNorm() = default;
  LayerNorm(const ParameterLayout& layout, const std::string& prefix);

  void forward(const T* dense, View<const T> x, State& state, View<T> y) const;
  /// The same values without what backward() needs.
  void infer(const T* dense, View<const T> x, View<T> y) const;
  /// d_x += …; d_dense += ….
  void backward(const T* dense, State& state, View<const T> d_y, T* d_dense, View<T> d_x) const;

 private:
  std::size_t weight_ = 0;
  std::size_t bias_ = 0;
};

extern template class LayerNorm<float>;
extern template class LayerNorm<double>;

}  // namespace sirenfeed::model
