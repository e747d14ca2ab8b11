#pragma once
// Functions of single elements.
// Only for kernels_v3.cc and kernels_v4.cc: all of it has internal linkage and is compiled for the
// includer's CPU level (see model/kernels.h).
#include "model/kernels_pack.h"

namespace sirenfeed::model {
namespace {

/// e^x: x = n ln 2 + r, a polynomial in r (minimax on ±ln 2/2, coefficients after Cephes' expf).
SF_INLINE Part<float>::Vec exp_part(Part<float>::Vec x) {
  using Vec = Part<float>::Vec;
  using Int = Part<float>::Int;
  const Vec lowest = Vec{} - 87.3365448F;
  const Vec highest = Vec{} + 88.3762589F;
  x = x < lowest ? lowest : x;
  x = x > highest ? highest : x;
  const Vec magic = Vec{} + 12582912.0F;  // 1.5 · 2^23: adding it rounds to an integer
  const Vec shifted = multiply_add(x, Vec{} + 1.44269504F, magic);
  const Vec n = shifted - magic;
  Vec r = multiply_add(n, Vec{} - 0.693359375F, x);
  r = multiply_add(n, Vec{} + 2.12194440e-4F, r);
  Vec p = Vec{} + 1.9875691500e-4F;
  constexpr float kTerms[] = {1.3981999507e-3F, 8.3334519073e-3F, 4.1665795894e-2F,
                              1.6666665459e-1F, 5.0000001201e-1F};
  for (const float coefficient : kTerms) {
    p = multiply_add(p, r, Vec{} + coefficient);
  }
  p = multiply_add(p, r * r, r) + 1.0F;
  const Int exponent = (reinterpret_cast<Int>(shifted) << 23) + (127 << 23);
  return p * reinterpret_cast<Vec>(exponent);
}

/// sin (quadrant 0) or cos (quadrant 1) for |x| up to kTrigonometricMax: x = q π/2 + r.
constexpr float kTrigonometricMax = 8192.0F;
SF_INLINE Part<float>::Vec sin_part(Part<float>::Vec x, int quadrant) {
  using Vec = Part<float>::Vec;
  using Int = Part<float>::Int;
  const Vec magic = Vec{} + 12582912.0F;
  const Vec shifted = multiply_add(x, Vec{} + 0.636619772F, magic);
  const Vec n = shifted - magic;
  Vec r = x;  // π/2 in four parts, the first ones short
  constexpr float kHalfPi[] = {1.5703125F, 4.8351287841796875e-4F, 3.13855707645416e-7F,
                               6.077100628276710e-11F};
  for (const float part : kHalfPi) {
    r = multiply_add(n, Vec{} - part, r);
  }
  const Int q = reinterpret_cast<Int>(shifted) + quadrant;
  const Vec z = r * r;
  Vec s = multiply_add(z, Vec{} - 1.9515295891e-4F, Vec{} + 8.3321608736e-3F);
  s = multiply_add(s, z, Vec{} - 1.6666654611e-1F);
  s = multiply_add(s, z * r, r);
  Vec c = multiply_add(z, Vec{} + 2.443315711809948e-5F, Vec{} - 1.388731625493765e-3F);
  c = multiply_add(c, z, Vec{} + 4.166664568298827e-2F);
  c = multiply_add(c, z * z, multiply_add(z, Vec{} - 0.5F, Vec{} + 1.0F));
  const Vec value = (q & 1) != 0 ? c : s;
  const Int sign = (q & 2) << 30;
  return reinterpret_cast<Vec>(reinterpret_cast<Int>(value) ^ sign);
}

SF_INLINE Pack<float> exp_pack(Pack<float> x) {
  for (std::size_t i = 0; i < kParts; ++i) x.part[i] = exp_part(x.part[i]);
  return x;
}
SF_INLINE Pack<float> sin_pack(Pack<float> x, int quadrant) {
  for (std::size_t i = 0; i < kParts; ++i) x.part[i] = sin_part(x.part[i], quadrant);
  return x;
}
SF_INLINE Pack<double> exp_pack(Pack<double> x) {
  double lanes[8];
  x.store(lanes);
  for (double& lane : lanes) lane = __builtin_exp(lane);
  return Pack<double>::load(lanes);
}
SF_INLINE Pack<double> sin_pack(Pack<double> x, int quadrant) {
  double lanes[8];
  x.store(lanes);
  for (double& lane : lanes) lane = quadrant == 0 ? __builtin_sin(lane) : __builtin_cos(lane);
  return Pack<double>::load(lanes);
}

/// y = function(x) pack by pack; the tail goes through a padded copy.
template <class T, class Function>
SF_INLINE void map_packs(const T* x, T* y, std::size_t n, Function function) {
  constexpr std::size_t kLanes = Pack<T>::kLanes;
  std::size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) function(Pack<T>::load(x + i)).store(y + i);
  if (i == n) return;
  T lanes[kLanes] = {};
  for (std::size_t l = 0; i + l < n; ++l) lanes[l] = x[i + l];
  function(Pack<T>::load(lanes)).store(lanes);
  for (std::size_t l = 0; i + l < n; ++l) y[i + l] = lanes[l];
}

template <class T>
void exp_kernel(const T* x, T* y, std::size_t n) {
  map_packs(x, y, n, [](Pack<T> v) { return exp_pack(v); });
}
/// Elements beyond the polynomials' range go to the library, each for itself.
template <class T>
SF_INLINE void sines(const T* x, T* y, std::size_t n, int quadrant) {
  if constexpr (sizeof(T) == 4) {
    Pack<T> top = Pack<T>::all(T{});
    std::size_t seen = 0;
    for (; seen + Pack<T>::kLanes <= n; seen += Pack<T>::kLanes) {
      const Pack<T> v = Pack<T>::load(x + seen);
      top = Pack<T>::max(top, Pack<T>::max(v, Pack<T>::all(T{}) - v));
    }
    bool small = largest(top) < kTrigonometricMax;
    for (; seen < n; ++seen) {
      small = small && x[seen] < kTrigonometricMax && x[seen] > -kTrigonometricMax;
    }
    if (!small) {
      for (std::size_t i = 0; i < n; ++i) {
        if (x[i] < kTrigonometricMax && x[i] > -kTrigonometricMax) {
          map_packs(x + i, y + i, 1, [&](Pack<T> v) { return sin_pack(v, quadrant); });
        } else {
          y[i] = quadrant == 0 ? __builtin_sinf(x[i]) : __builtin_cosf(x[i]);
        }
      }
      return;
    }
  }
  map_packs(x, y, n, [&](Pack<T> v) { return sin_pack(v, quadrant); });
}
template <class T>
void sin_kernel(const T* x, T* y, std::size_t n) {
  sines(x, y, n, 0);
}
template <class T>
void cos_kernel(const T* x, T* y, std::size_t n) {
  sines(x, y, n, 1);
}

template <class T>
SF_INLINE Pack<T> sigmoid_pack(Pack<T> x) {
  const Pack<T> one = Pack<T>::all(T{1});
  return one / (one + exp_pack(Pack<T>::all(T{}) - x));
}

template <class T>
void silu_kernel(const T* x, T* gate, T* y, std::size_t n) {
  constexpr std::size_t kLanes = Pack<T>::kLanes;
  std::size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const Pack<T> v = Pack<T>::load(x + i);
    const Pack<T> g = sigmoid_pack(v);
    g.store(gate + i);
    (v * g).store(y + i);
  }
  if (i == n) return;
  T lanes[kLanes] = {};
  for (std::size_t l = 0; i + l < n; ++l) lanes[l] = x[i + l];
  const Pack<T> v = Pack<T>::load(lanes);
  const Pack<T> g = sigmoid_pack(v);
  g.store(lanes);
  for (std::size_t l = 0; i + l < n; ++l) gate[i + l] = lanes[l];
  (v * g).store(lanes);
  for (std::size_t l = 0; i + l < n; ++l) y[i + l] = lanes[l];
}

template <class T>
void silu_alone_kernel(const T* x, T* y, std::size_t n) {
  map_packs(x, y, n, [](Pack<T> v) { return v * sigmoid_pack(v); });
}

template <class T>
void silu_backward_kernel(const T* gate, const T* y, const T* d_y, T* d_x, std::size_t n) {
  constexpr std::size_t kLanes = Pack<T>::kLanes;
  const Pack<T> one = Pack<T>::all(T{1});
  std::size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const Pack<T> g = Pack<T>::load(gate + i);
    const Pack<T> slope = Pack<T>::fma(Pack<T>::load(y + i), one - g, g);
    (Pack<T>::load(d_y + i) * slope).store(d_x + i);
  }
  for (; i < n; ++i) d_x[i] = d_y[i] * multiply_add(y[i], T{1} - gate[i], gate[i]);
}

template <class T>
void add_scaled_kernel(const T* x, const T* add, T scale, T* to, std::size_t n) {
  constexpr std::size_t kLanes = Pack<T>::kLanes;
  const Pack<T> factor = Pack<T>::all(scale);
  std::size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    Pack<T>::fma(factor, Pack<T>::load(add + i), Pack<T>::load(x + i)).store(to + i);
  }
  for (; i < n; ++i) to[i] = multiply_add(scale, add[i], x[i]);
}

template <class T>
void add_columns_kernel(const T* x, std::size_t stride, std::size_t rows, std::size_t cols,
                        T* sums) {
  constexpr std::size_t kLanes = Pack<T>::kLanes;
  std::size_t c = 0;
  for (; c + kLanes <= cols; c += kLanes) {
    Pack<T> acc = Pack<T>::load(sums + c);
    for (std::size_t r = 0; r < rows; ++r) acc = acc + Pack<T>::load(x + r * stride + c);
    acc.store(sums + c);
  }
  for (; c < cols; ++c) {
    for (std::size_t r = 0; r < rows; ++r) sums[c] += x[r * stride + c];
  }
}

}  // namespace
}  // namespace sirenfeed::model
