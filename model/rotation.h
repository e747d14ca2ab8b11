#pragma once
#include "model/matrix.h"

namespace sirenfeed::model {

/// cos Θ and sin Θ of every token and plane, [rows, P].
template <class T>
struct Turns {
  Matrix<T> cosine;
  Matrix<T> sine;
};

/// In place on x [rows, heads · 2P]: adjacent pairs (e, o) of every head become
/// (e cosΘ − o sinΘ, e sinΘ + o cosΘ). Row r takes the angles of row first_row + r.
template <class T>
void rotate(View<T> x, const Turns<T>& turns, std::size_t first_row);

/// d_x: in, the gradient of the rotated; out, of the unrotated. d_theta [all rows, P] += this
/// rotation's share, from the rotated values `rotated`.
template <class T>
void rotate_backward(View<T> d_x, View<const T> rotated, const Turns<T>& turns,
                     std::size_t first_row, View<T> d_theta);

extern template void rotate(View<float>, const Turns<float>&, std::size_t);
extern template void rotate(View<double>, const Turns<double>&, std::size_t);
extern template void rotate_backward(View<float>, View<const float>, const Turns<float>&,
                                     std::size_t, View<float>);
extern template void rotate_backward(View<double>, View<const double>, const Turns<double>&,
                                     std::size_t, View<double>);

}  // namespace sirenfeed::model
