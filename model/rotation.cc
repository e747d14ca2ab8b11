#include "model/rotation.h"

#include "base/check.h"
#include "model/kernels.h"
#include "model/vector_math.h"

namespace sirenfeed::model {

template <class T>
void make_turns(const Matrix<T>& theta, Turns<T>& turns) {
  const std::size_t n = theta.size();
  turns.cosine.resize(theta.rows(), 2 * theta.cols());
  turns.sine.resize(theta.rows(), 2 * theta.cols());
  turns.plane_values.resize(theta.rows(), theta.cols());
  T* const value = turns.plane_values.data();
  T* const cosine = turns.cosine.data();
  T* const sine = turns.sine.data();
  cos_of(theta.data(), value, n);
  for (std::size_t i = 0; i < n; ++i) {
    cosine[2 * i] = value[i];
    cosine[2 * i + 1] = value[i];
  }
  sin_of(theta.data(), value, n);
  for (std::size_t i = 0; i < n; ++i) {
    sine[2 * i] = -value[i];
    sine[2 * i + 1] = value[i];
  }
}

template <class T>
void rotate(View<T> x, const Turns<T>& turns, std::size_t first_row) {
  if (x.rows == 0) return;
  SF_CHECK(first_row + x.rows <= turns.cosine.rows());
  kernels<T>().rotate({x.data, x.rows, x.cols, x.stride, turns.cosine.row(first_row),
                       turns.sine.row(first_row), turns.cosine.cols(), nullptr, nullptr});
}

template <class T>
void rotate_backward(View<T> d_x, View<const T> rotated, const Turns<T>& turns,
                     std::size_t first_row, View<T> d_turns) {
  if (d_x.rows == 0) return;
  SF_CHECK(rotated.stride == d_x.stride && d_turns.stride == turns.cosine.cols());
  kernels<T>().rotate_backward({d_x.data, d_x.rows, d_x.cols, d_x.stride,
                                turns.cosine.row(first_row), turns.sine.row(first_row),
                                turns.cosine.cols(), rotated.data, d_turns.row(first_row)});
}

template <class T>
void fold_turns(const Matrix<T>& d_turns, Matrix<T>& d_theta) {
  d_theta.resize(d_turns.rows(), d_turns.cols() / 2);
  const T* const half = d_turns.data();
  T* const whole = d_theta.data();
  for (std::size_t i = 0; i < d_theta.size(); ++i) whole[i] = half[2 * i + 1] - half[2 * i];
}

template void make_turns(const Matrix<float>&, Turns<float>&);
template void make_turns(const Matrix<double>&, Turns<double>&);
template void rotate(View<float>, const Turns<float>&, std::size_t);
template void rotate(View<double>, const Turns<double>&, std::size_t);
template void rotate_backward(View<float>, View<const float>, const Turns<float>&, std::size_t,
                              View<float>);
template void rotate_backward(View<double>, View<const double>, const Turns<double>&, std::size_t,
                              View<double>);
template void fold_turns(const Matrix<float>&, Matrix<float>&);
template void fold_turns(const Matrix<double>&, Matrix<double>&);

}  // namespace sirenfeed::model
