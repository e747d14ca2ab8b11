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

#define SIRENFEED_ROTATION(prefix, T)                                                        \
  prefix template void rotate(View<T>, const Turns<T>&, std::size_t);                        \
  prefix template void rotate_backward(View<T>, View<const T>, const Turns<T>&, std::size_t, \
                                       View<T>);
SIRENFEED_ROTATION(extern, float)
SIRENFEED_ROTATION(extern, double)

}  // namespace sirenfeed::model
