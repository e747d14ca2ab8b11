#pragma once
// Element-wise functions over arrays. Every element goes through the same fixed-width packets, so
// its bits depend neither on its place in the array nor on the array's length.
#include <cstddef>

namespace sirenfeed::model {

template <class T>
void sin_of(const T* x, T* y, std::size_t n);
template <class T>
void cos_of(const T* x, T* y, std::size_t n);
template <class T>
void exp_of(const T* x, T* y, std::size_t n);
/// gate = σ(x), y = x · gate. `gate` may be x itself.
template <class T>
void silu_of(const T* x, T* gate, T* y, std::size_t n);
/// d_x = d_y · gate · (1 + x (1 − gate)), with x · gate = y.
template <class T>
void silu_backward(const T* gate, const T* y, const T* d_y, T* d_x, std::size_t n);

extern template void sin_of(const float*, float*, std::size_t);
extern template void cos_of(const float*, float*, std::size_t);
extern template void exp_of(const float*, float*, std::size_t);
extern template void silu_of(const float*, float*, float*, std::size_t);
extern template void silu_backward(const float*, const float*, const float*, float*, std::size_t);
extern template void sin_of(const double*, double*, std::size_t);
extern template void cos_of(const double*, double*, std::size_t);
extern template void exp_of(const double*, double*, std::size_t);
extern template void silu_of(const double*, double*, double*, std::size_t);
extern template void silu_backward(const double*, const double*, const double*, double*,
                                   std::size_t);

}  // namespace sirenfeed::model
