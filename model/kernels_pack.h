#pragma once
// Only for kernels_v3.cc and kernels_v4.cc: all of it has internal linkage and is compiled for the
// includer's CPU level (see model/kernels.h).
#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "model/kernels.h"

namespace sirenfeed::model {
namespace {

#ifdef __AVX512F__
constexpr std::size_t kParts = 1;
#else
constexpr std::size_t kParts = 2;
#endif
constexpr std::size_t kPartBytes = 64 / kParts;

template <class T>
struct Part;
template <>
struct Part<float> {
  using Vec = float __attribute__((vector_size(kPartBytes)));
  using Int = std::int32_t __attribute__((vector_size(kPartBytes)));
};
template <>
struct Part<double> {
  using Vec = double __attribute__((vector_size(kPartBytes)));
  using Int = std::int64_t __attribute__((vector_size(kPartBytes)));
};

#define SF_INLINE [[gnu::always_inline]] inline

/// a · b + c, rounded once. Spelt out, and the compiler may not fuse anything else in these files
/// (model/CMakeLists.txt): what it fuses differs between scalar and vector loops.
SF_INLINE Part<float>::Vec multiply_add(Part<float>::Vec a, Part<float>::Vec b,
                                        Part<float>::Vec c) {
#ifdef __AVX512F__
  return _mm512_fmadd_ps(a, b, c);
#else
  return _mm256_fmadd_ps(a, b, c);
#endif
}
SF_INLINE Part<double>::Vec multiply_add(Part<double>::Vec a, Part<double>::Vec b,
                                         Part<double>::Vec c) {
#ifdef __AVX512F__
  return _mm512_fmadd_pd(a, b, c);
#else
  return _mm256_fmadd_pd(a, b, c);
#endif
}

/// The same for the elements behind the last whole pack, whose bits must not depend on their place.
SF_INLINE float multiply_add(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
SF_INLINE double multiply_add(double a, double b, double c) { return __builtin_fma(a, b, c); }

/// 64 bytes of T in one or two registers.
template <class T>
struct Pack {
  using Vec = typename Part<T>::Vec;
  static constexpr std::size_t kLanes = 64 / sizeof(T);
  static constexpr std::size_t kPartLanes = kLanes / kParts;
  Vec part[kParts];

  SF_INLINE static Pack load(const T* from) {
    Pack pack;
    for (std::size_t i = 0; i < kParts; ++i) {
      __builtin_memcpy(&pack.part[i], from + i * kPartLanes, kPartBytes);
    }
    return pack;
  }
  SF_INLINE static Pack all(T value) {
    Pack pack;
    for (std::size_t i = 0; i < kParts; ++i) pack.part[i] = Vec{} + value;
    return pack;
  }
  SF_INLINE void store(T* to) const {
    for (std::size_t i = 0; i < kParts; ++i) {
      __builtin_memcpy(to + i * kPartLanes, &part[i], kPartBytes);
    }
  }
  /// The first `count` lanes; the others are 0 and their memory is not touched. count < kLanes.
  SF_INLINE static Pack load_first(const T* from, std::size_t count);
  SF_INLINE void store_first(T* to, std::size_t count) const;
  SF_INLINE friend Pack operator+(Pack a, Pack b) {
    for (std::size_t i = 0; i < kParts; ++i) a.part[i] += b.part[i];
    return a;
  }
  SF_INLINE friend Pack operator-(Pack a, Pack b) {
    for (std::size_t i = 0; i < kParts; ++i) a.part[i] -= b.part[i];
    return a;
  }
  SF_INLINE friend Pack operator*(Pack a, Pack b) {
    for (std::size_t i = 0; i < kParts; ++i) a.part[i] *= b.part[i];
    return a;
  }
  SF_INLINE friend Pack operator/(Pack a, Pack b) {
    for (std::size_t i = 0; i < kParts; ++i) a.part[i] /= b.part[i];
    return a;
  }
  /// a · b + c, rounded once.
  SF_INLINE static Pack fma(Pack a, Pack b, Pack c) {
    for (std::size_t i = 0; i < kParts; ++i) {
      c.part[i] = multiply_add(a.part[i], b.part[i], c.part[i]);
    }
    return c;
  }
  SF_INLINE static Pack max(Pack a, Pack b) {
    for (std::size_t i = 0; i < kParts; ++i) {
      a.part[i] = a.part[i] > b.part[i] ? a.part[i] : b.part[i];
    }
    return a;
  }
  /// Neighbours exchanged: lanes 1 0 3 2 ….
  SF_INLINE Pack swapped() const;
};

// Eight and four lanes of float, four and two of double: what a sum is folded through.
template <class T>
struct Fold;
template <>
struct Fold<float> {
  using Half = float __attribute__((vector_size(32)));
  using Quarter = float __attribute__((vector_size(16)));
  SF_INLINE static Half low(const Pack<float>& x) {
#ifdef __AVX512F__
    return __builtin_shufflevector(x.part[0], x.part[0], 0, 1, 2, 3, 4, 5, 6, 7);
#else
    return x.part[0];
#endif
  }
  SF_INLINE static Half high(const Pack<float>& x) {
#ifdef __AVX512F__
    return __builtin_shufflevector(x.part[0], x.part[0], 8, 9, 10, 11, 12, 13, 14, 15);
#else
    return x.part[1];
#endif
  }
  template <class Join>
  SF_INLINE static float run(const Pack<float>& x, Join join) {
    const Half half = join(low(x), high(x));
    const Quarter quarter = join(__builtin_shufflevector(half, half, 0, 1, 2, 3),
                                 __builtin_shufflevector(half, half, 4, 5, 6, 7));
    const Quarter pair = join(quarter, __builtin_shufflevector(quarter, quarter, 2, 3, 0, 1));
    const Quarter one = join(pair, __builtin_shufflevector(pair, pair, 1, 0, 3, 2));
    return one[0];
  }
};
template <>
struct Fold<double> {
  using Half = double __attribute__((vector_size(32)));
  using Quarter = double __attribute__((vector_size(16)));
  template <class Join>
  SF_INLINE static double run(const Pack<double>& x, Join join) {
#ifdef __AVX512F__
    const Half half = join(__builtin_shufflevector(x.part[0], x.part[0], 0, 1, 2, 3),
                           __builtin_shufflevector(x.part[0], x.part[0], 4, 5, 6, 7));
#else
    const Half half = join(x.part[0], x.part[1]);
#endif
    const Quarter pair =
        join(__builtin_shufflevector(half, half, 0, 1), __builtin_shufflevector(half, half, 2, 3));
    const Quarter one = join(pair, __builtin_shufflevector(pair, pair, 1, 0));
    return one[0];
  }
};
template <class T>
SF_INLINE T sum(const Pack<T>& x) {
  return Fold<T>::run(
      x, [](auto a, auto b) __attribute__((always_inline)) { return a + b; });
}
template <class T>
SF_INLINE T largest(const Pack<T>& x) {
  return Fold<T>::run(
      x, [](auto a, auto b) __attribute__((always_inline)) { return a > b ? a : b; });
}

template <>
SF_INLINE Pack<float> Pack<float>::swapped() const {
  Pack out;
  for (std::size_t i = 0; i < kParts; ++i) {
#ifdef __AVX512F__
    out.part[i] = __builtin_shufflevector(part[i], part[i], 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10,
                                          13, 12, 15, 14);
#else
    out.part[i] = __builtin_shufflevector(part[i], part[i], 1, 0, 3, 2, 5, 4, 7, 6);
#endif
  }
  return out;
}
template <>
SF_INLINE Pack<double> Pack<double>::swapped() const {
  Pack out;
  for (std::size_t i = 0; i < kParts; ++i) {
#ifdef __AVX512F__
    out.part[i] = __builtin_shufflevector(part[i], part[i], 1, 0, 3, 2, 5, 4, 7, 6);
#else
    out.part[i] = __builtin_shufflevector(part[i], part[i], 1, 0, 3, 2);
#endif
  }
  return out;
}

#ifdef __AVX512F__
template <>
SF_INLINE Pack<float> Pack<float>::load_first(const float* from, std::size_t count) {
  return {{_mm512_maskz_loadu_ps(static_cast<__mmask16>((1U << count) - 1U), from)}};
}
template <>
SF_INLINE void Pack<float>::store_first(float* to, std::size_t count) const {
  _mm512_mask_storeu_ps(to, static_cast<__mmask16>((1U << count) - 1U), part[0]);
}
template <>
SF_INLINE Pack<double> Pack<double>::load_first(const double* from, std::size_t count) {
  return {{_mm512_maskz_loadu_pd(static_cast<__mmask8>((1U << count) - 1U), from)}};
}
template <>
SF_INLINE void Pack<double>::store_first(double* to, std::size_t count) const {
  _mm512_mask_storeu_pd(to, static_cast<__mmask8>((1U << count) - 1U), part[0]);
}
#else
/// All bits of the lanes of part `i` that are among the first `count` of the pack.
SF_INLINE __m256i first_floats(std::size_t count, std::size_t i) {
  const __m256i lane = _mm256_add_epi32(_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7),
                                        _mm256_set1_epi32(static_cast<int>(i) * 8));
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(count)), lane);
}
SF_INLINE __m256i first_doubles(std::size_t count, std::size_t i) {
  const __m256i lane = _mm256_add_epi64(_mm256_setr_epi64x(0, 1, 2, 3),
                                        _mm256_set1_epi64x(static_cast<long long>(i) * 4));
  return _mm256_cmpgt_epi64(_mm256_set1_epi64x(static_cast<long long>(count)), lane);
}
template <>
SF_INLINE Pack<float> Pack<float>::load_first(const float* from, std::size_t count) {
  Pack pack;
  for (std::size_t i = 0; i < kParts; ++i) {
    pack.part[i] = _mm256_maskload_ps(from + i * kPartLanes, first_floats(count, i));
  }
  return pack;
}
template <>
SF_INLINE void Pack<float>::store_first(float* to, std::size_t count) const {
  for (std::size_t i = 0; i < kParts; ++i) {
    _mm256_maskstore_ps(to + i * kPartLanes, first_floats(count, i), part[i]);
  }
}
template <>
SF_INLINE Pack<double> Pack<double>::load_first(const double* from, std::size_t count) {
  Pack pack;
  for (std::size_t i = 0; i < kParts; ++i) {
    pack.part[i] = _mm256_maskload_pd(from + i * kPartLanes, first_doubles(count, i));
  }
  return pack;
}
template <>
SF_INLINE void Pack<double>::store_first(double* to, std::size_t count) const {
  for (std::size_t i = 0; i < kParts; ++i) {
    _mm256_maskstore_pd(to + i * kPartLanes, first_doubles(count, i), part[i]);
  }
}
#endif

}  // namespace
}  // namespace sirenfeed::model
