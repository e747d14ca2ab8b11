#pragma once
#include "model/matrix.h"

namespace sirenfeed::model {

/// cos Θ and sin Θ of every token, [rows, 2P]: plane j at 2j and 2j + 1, the sine as −sin, +sin, so
/// that a rotation is two products of whole rows. Shared by heads, layers and the pooling.
template <class T>
struct Turns {
  Matrix<T> cosine;
  Matrix<T> sine;
  Matrix<T> plane_values;  // memory of make_turns
};

/// theta [rows, P].
template <class T>
void make_turns(const Matrix<T>& theta, Turns<T>& turns);

/// In place on x [rows, heads · 2P]: adjacent pairs (e, o) of every head become
/// (e cosΘ − o sinΘ, e sinΘ + o cosΘ). Row r takes the angles of row first_row + r.
template <class T>
void rotate(View<T> x, const Turns<T>& turns, std::size_t first_row);

/// d_x: in, the gradient of the rotated; out, of the unrotated. d_turns [all rows, 2P] += this
/// rotation's share of dΘ, from the rotated values `rotated`, as two halves (fold_turns).
template <class T>
void rotate_backward(View<T> d_x, View<const T> rotated, const Turns<T>& turns,
                     std::size_t first_row, View<T> d_turns);

/// d_theta [rows, P] from the halves: dΘ = go' e' − ge' o'.
template <class T>
void fold_turns(const Matrix<T>& d_turns, Matrix<T>& d_theta);

extern template void make_turns(const Matrix<float>&, Turns<float>&);
extern template void make_turns(const Matrix<double>&, Turns<double>&);
extern template void rotate(View<float>, const Turns<float>&, std::size_t);
extern template void rotate(View<double>, const Turns<double>&, std::size_t);
extern template void rotate_backward(View<float>, View<const float>, const Turns<float>&,
                                     std::size_t, View<float>);
extern template void rotate_backward(View<double>, View<const double>, const Turns<double>&,
                                     std::size_t, View<double>);
extern template void fold_turns(const Matrix<float>&, Matrix<float>&);
extern template void fold_turns(const Matrix<double>&, Matrix<double>&);

}  // namespace sirenfeed::model
