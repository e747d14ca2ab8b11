#include "model/rotation.h"

namespace sirenfeed::model {

template <class T>
void rotate(View<T> x, const Turns<T>& turns, std::size_t first_row) {
  const std::size_t planes = turns.cosine.cols();
  for (std::size_t r = 0; r < x.rows; ++r) {
    const T* cosine = turns.cosine.row(first_row + r);
    const T* sine = turns.sine.row(first_row + r);
    for (T* pair = x.row(r); pair < x.row(r) + x.cols; pair += 2 * planes) {
      for (std::size_t j = 0; j < planes; ++j) {
        const T e = pair[2 * j];
        const T o = pair[2 * j + 1];
        pair[2 * j] = e * cosine[j] - o * sine[j];
        pair[2 * j + 1] = e * sine[j] + o * cosine[j];
      }
    }
  }
}

template <class T>
void rotate_backward(View<T> d_x, View<const T> rotated, const Turns<T>& turns,
                     std::size_t first_row, View<T> d_theta) {
  const std::size_t planes = turns.cosine.cols();
  for (std::size_t r = 0; r < d_x.rows; ++r) {
    const T* cosine = turns.cosine.row(first_row + r);
    const T* sine = turns.sine.row(first_row + r);
    T* d_angle = d_theta.row(first_row + r);
    for (std::size_t c = 0; c < d_x.cols; c += 2 * planes) {
      T* d_pair = d_x.row(r) + c;
      const T* pair = rotated.row(r) + c;
      for (std::size_t j = 0; j < planes; ++j) {
        const T d_e = d_pair[2 * j];
        const T d_o = d_pair[2 * j + 1];
        d_angle[j] += d_o * pair[2 * j] - d_e * pair[2 * j + 1];
        d_pair[2 * j] = d_e * cosine[j] + d_o * sine[j];
        d_pair[2 * j + 1] = d_o * cosine[j] - d_e * sine[j];
      }
    }
  }
}

template void rotate(View<float>, const Turns<float>&, std::size_t);
template void rotate(View<double>, const Turns<double>&, std::size_t);
template void rotate_backward(View<float>, View<const float>, const Turns<float>&, std::size_t,
                              View<float>);
template void rotate_backward(View<double>, View<const double>, const Turns<double>&, std::size_t,
                              View<double>);

}  // namespace sirenfeed::model
