#pragma once
// Θ += ω f and its way back: what every learned signal's angle term ends with. f is evaluated once
// per distinct input; number_of(token) says which row of f a token takes.
#include <algorithm>

#include "model/chunk_index.h"
#include "model/matrix.h"

namespace sirenfeed::model {

/// theta[r] += scale · f[number of r].
template <class T, class NumberOf>
void add_scaled(View<T> theta, const ChunkIndex& index, const Matrix<T>& f, const T* scale,
                NumberOf number_of) {
  for (std::size_t r = 0; r < theta.rows; ++r) {
    const T* from = f.row(number_of(index.tokens[r]));
    T* to = theta.row(r);
    for (std::size_t j = 0; j < theta.cols; ++j) to[j] += scale[j] * from[j];
  }
}

/// d_f like f, overwritten; d_scale += ….
template <class T, class NumberOf>
void scaled_backward(View<const T> d_theta, const ChunkIndex& index, const Matrix<T>& f,
                     const T* scale, NumberOf number_of, Matrix<T>& d_f, T* d_scale) {
  d_f.resize_zero(f.rows(), f.cols());
  for (std::size_t r = 0; r < d_theta.rows; ++r) {
    const std::size_t number = number_of(index.tokens[r]);
    const T* d_angle = d_theta.row(r);
    const T* value = f.row(number);
    T* d_value = d_f.row(number);
    for (std::size_t j = 0; j < d_theta.cols; ++j) {
      d_scale[j] += value[j] * d_angle[j];
      d_value[j] += scale[j] * d_angle[j];
    }
  }
}

}  // namespace sirenfeed::model
