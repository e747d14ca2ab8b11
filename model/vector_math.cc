#include "model/vector_math.h"

#include "model/kernels.h"

namespace sirenfeed::model {

template <class T>
void sin_of(const T* x, T* y, std::size_t n) {
  kernels<T>().sin(x, y, n);
}
template <class T>
void cos_of(const T* x, T* y, std::size_t n) {
  kernels<T>().cos(x, y, n);
}
template <class T>
void exp_of(const T* x, T* y, std::size_t n) {
  kernels<T>().exp(x, y, n);
}
template <class T>
void silu_of(const T* x, T* gate, T* y, std::size_t n) {
  kernels<T>().silu(x, gate, y, n);
}
template <class T>
void silu_backward(const T* gate, const T* y, const T* d_y, T* d_x, std::size_t n) {
  kernels<T>().silu_backward(gate, y, d_y, d_x, n);
}

template void sin_of(const float*, float*, std::size_t);
template void cos_of(const float*, float*, std::size_t);
template void exp_of(const float*, float*, std::size_t);
template void silu_of(const float*, float*, float*, std::size_t);
template void silu_backward(const float*, const float*, const float*, float*, std::size_t);
template void sin_of(const double*, double*, std::size_t);
template void cos_of(const double*, double*, std::size_t);
template void exp_of(const double*, double*, std::size_t);
template void silu_of(const double*, double*, double*, std::size_t);
template void silu_backward(const double*, const double*, const double*, double*, std::size_t);

}  // namespace sirenfeed::model
