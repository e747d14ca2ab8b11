#include "model/vector_math.h"

#include <Eigen/Core>
#include <algorithm>

namespace sirenfeed::model {
namespace {

constexpr std::size_t kBlock = 16;
template <class T>
using Block = Eigen::Array<T, static_cast<int>(kBlock), 1>;
template <class T>
using In = Eigen::Map<const Block<T>>;
template <class T>
using Out = Eigen::Map<Block<T>>;

/// y = function(x) block by block; the tail goes through a padded copy.
template <class T, class Function>
void map_blocks(const T* x, T* y, std::size_t n, Function function) {
  std::size_t i = 0;
  for (; i + kBlock <= n; i += kBlock) {
    const Block<T> block = In<T>(x + i);
    Out<T>(y + i) = function(block);
  }
  if (i == n) return;
  Block<T> block = Block<T>::Zero();
  std::copy_n(x + i, n - i, block.data());
  const Block<T> result = function(block);
  std::copy_n(result.data(), n - i, y + i);
}

}  // namespace

template <class T>
void sin_of(const T* x, T* y, std::size_t n) {
  map_blocks(x, y, n, [](const Block<T>& v) -> Block<T> { return v.sin(); });
}

template <class T>
void cos_of(const T* x, T* y, std::size_t n) {
  map_blocks(x, y, n, [](const Block<T>& v) -> Block<T> { return v.cos(); });
}

template <class T>
void exp_of(const T* x, T* y, std::size_t n) {
  map_blocks(x, y, n, [](const Block<T>& v) -> Block<T> { return v.exp(); });
}

template <class T>
void silu_of(const T* x, T* gate, T* y, std::size_t n) {
  map_blocks(x, gate, n,
             [](const Block<T>& v) -> Block<T> { return (T{1} + (-v).exp()).inverse(); });
  for (std::size_t i = 0; i < n; ++i) y[i] = x[i] * gate[i];
}

template <class T>
void silu_backward(const T* x, const T* gate, const T* d_y, T* d_x, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    d_x[i] = d_y[i] * gate[i] * (T{1} + x[i] * (T{1} - gate[i]));
  }
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
