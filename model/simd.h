#pragma once
// Fixed-width vectors (32 bytes) through the compiler's vector types, which gcc and clang share.
// Sums run over lanes in a fixed order, so that no result depends on an address's alignment.
#include <cstddef>
#include <cstring>

namespace sirenfeed::model {

template <class T>
struct Simd;
template <>
struct Simd<float> {
  using Vec = float __attribute__((vector_size(32)));
  static constexpr std::size_t kLanes = 8;
};
template <>
struct Simd<double> {
  using Vec = double __attribute__((vector_size(32)));
  static constexpr std::size_t kLanes = 4;
};

template <class T>
[[nodiscard]] inline typename Simd<T>::Vec load(const T* from) {
  typename Simd<T>::Vec vec;
  std::memcpy(&vec, from, sizeof vec);
  return vec;
}
template <class T>
inline void store(T* to, typename Simd<T>::Vec vec) {
  std::memcpy(to, &vec, sizeof vec);
}

template <class T>
[[nodiscard]] inline T sum_lanes(typename Simd<T>::Vec vec) {
  if constexpr (Simd<T>::kLanes == 8) {
    return ((vec[0] + vec[4]) + (vec[2] + vec[6])) + ((vec[1] + vec[5]) + (vec[3] + vec[7]));
  } else {
    return (vec[0] + vec[2]) + (vec[1] + vec[3]);
  }
}

template <class T>
[[nodiscard]] inline T sum(const T* x, std::size_t n) {
  constexpr std::size_t kLanes = Simd<T>::kLanes;
  typename Simd<T>::Vec lanes{};
  std::size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) lanes += load(x + i);
  T total = sum_lanes<T>(lanes);
  for (; i < n; ++i) total += x[i];
  return total;
}

template <class T>
[[nodiscard]] inline T dot(const T* x, const T* y, std::size_t n) {
  constexpr std::size_t kLanes = Simd<T>::kLanes;
  typename Simd<T>::Vec lanes{};
  std::size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) lanes += load(x + i) * load(y + i);
  T total = sum_lanes<T>(lanes);
  for (; i < n; ++i) total += x[i] * y[i];
  return total;
}

/// n rounded up to whole vectors.
template <class T>
[[nodiscard]] constexpr std::size_t padded(std::size_t n) {
  return (n + Simd<T>::kLanes - 1) / Simd<T>::kLanes * Simd<T>::kLanes;
}

}  // namespace sirenfeed::model
