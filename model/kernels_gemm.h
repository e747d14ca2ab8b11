#pragma once
// The matrix product.
// Only for kernels_v3.cc and kernels_v4.cc: all of it has internal linkage and is compiled for the
// includer's CPU level (see model/kernels.h).
#include "model/kernels_pack.h"

namespace sirenfeed::model {
namespace {

/// R rows × V packs of columns, all of C's tile in registers.
template <class T, int R, int V>
SF_INLINE void pack_tile(const GemmArguments<T>& g, const T* a, const T* b, T* c, const T* bias,
                         std::size_t k_count, bool add) {
  constexpr std::size_t kLanes = Pack<T>::kLanes;
  Pack<T> acc[R][V];
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) {
      const std::size_t column = static_cast<std::size_t>(v) * kLanes;
      if (add) {
        acc[r][v] = Pack<T>::load(c + static_cast<std::size_t>(r) * g.c_stride + column);
      } else {
        acc[r][v] = bias == nullptr ? Pack<T>::all(T{}) : Pack<T>::load(bias + column);
      }
    }
  }
  // A pointer for every third row: three rows are one base with three offsets.
  constexpr int kBases = (R + 2) / 3;
  const T* base[kBases];
  for (int i = 0; i < kBases; ++i) base[i] = a + static_cast<std::size_t>(3 * i) * g.row_step;
  for (std::size_t k = 0; k < k_count; ++k, b += g.b_stride) {
    Pack<T> b_row[V];
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) b_row[v] = Pack<T>::load(b + static_cast<std::size_t>(v) * kLanes);
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      const Pack<T> scalar =
          Pack<T>::all(base[r / 3][static_cast<std::size_t>(r % 3) * g.row_step]);
#pragma GCC unroll 8
      for (int v = 0; v < V; ++v) acc[r][v] = Pack<T>::fma(b_row[v], scalar, acc[r][v]);
    }
#pragma GCC unroll 8
    for (int i = 0; i < kBases; ++i) base[i] += g.k_step;
  }
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) {
      acc[r][v].store(c + static_cast<std::size_t>(r) * g.c_stride +
                      static_cast<std::size_t>(v) * kLanes);
    }
  }
}

/// All rows of V packs of columns.
template <class T, int R, int V>
SF_INLINE void column_band(const GemmArguments<T>& g, const T* a, const T* b, T* c, const T* bias,
                           std::size_t k_count, bool add) {
  std::size_t rows = g.rows;
  const auto advance = [&](std::size_t n) {
    a += n * g.row_step;
    c += n * g.c_stride;
    rows -= n;
  };
  while (rows >= R) {
    pack_tile<T, R, V>(g, a, b, c, bias, k_count, add);
    advance(R);
  }
  if constexpr (R > 6) {
    if (rows >= 6) {
      pack_tile<T, 6, V>(g, a, b, c, bias, k_count, add);
      advance(6);
    }
  }
  if constexpr (R > 4) {
    if (rows >= 4) {
      pack_tile<T, 4, V>(g, a, b, c, bias, k_count, add);
      advance(4);
    }
  }
  while (rows >= 2) {
    pack_tile<T, 2, V>(g, a, b, c, bias, k_count, add);
    advance(2);
  }
  if (rows == 1) pack_tile<T, 1, V>(g, a, b, c, bias, k_count, add);
}

constexpr std::size_t kStretch = 128;  // of k: its part of A and B stays in the first cache

/// The last columns, fewer than a pack: the same chains on padded copies.
template <class T>
SF_INLINE void tail_columns(const GemmArguments<T>& g, const T* a, const T* b, T* c, const T* bias,
                            std::size_t cols, std::size_t k_count, bool add) {
  constexpr std::size_t kLanes = Pack<T>::kLanes;
  constexpr std::size_t kRows = 12;
  alignas(64) T b_copy[kStretch * kLanes];
  alignas(64) T c_copy[kRows * kLanes];
  alignas(64) T bias_copy[kLanes] = {};
  for (std::size_t k = 0; k < k_count; ++k) {
    for (std::size_t n = 0; n < kLanes; ++n) {
      b_copy[k * kLanes + n] = n < cols ? b[k * g.b_stride + n] : T{};
    }
  }
  for (std::size_t n = 0; n < cols && bias != nullptr; ++n) bias_copy[n] = bias[n];
  for (std::size_t r = 0; r < g.rows; r += kRows) {
    const std::size_t count = g.rows - r < kRows ? g.rows - r : kRows;
    for (std::size_t i = 0; i < count && add; ++i) {
      for (std::size_t n = 0; n < kLanes; ++n) {
        c_copy[i * kLanes + n] = n < cols ? c[(r + i) * g.c_stride + n] : T{};
      }
    }
    GemmArguments<T> part = g;
    part.rows = count;
    part.b_stride = kLanes;
    part.c_stride = kLanes;
    column_band<T, kParts == 1 ? 12 : 6, 1>(part, a + r * g.row_step, b_copy, c_copy, bias_copy,
                                            k_count, add);
    for (std::size_t i = 0; i < count; ++i) {
      for (std::size_t n = 0; n < cols; ++n) c[(r + i) * g.c_stride + n] = c_copy[i * kLanes + n];
    }
  }
}

/// One stretch of k, column band by column band.
template <class T>
SF_INLINE void gemm_stretch(const GemmArguments<T>& g, const T* a, const T* b, std::size_t k_count,
                            bool add) {
  constexpr std::size_t kLanes = Pack<T>::kLanes;
  const T* bias = g.start == GemmStart::kBias ? g.bias : nullptr;
  std::size_t columns = g.cols;
  T* c = g.c;
  const auto advance = [&](std::size_t n) {
    b += n;
    c += n;
    if (bias != nullptr) bias += n;
    columns -= n;
  };
  if constexpr (kParts == 1) {  // 32 registers
    while (columns >= 4 * kLanes) {
      column_band<T, 6, 4>(g, a, b, c, bias, k_count, add);
      advance(4 * kLanes);
    }
    if (columns >= 2 * kLanes) {
      column_band<T, 12, 2>(g, a, b, c, bias, k_count, add);
      advance(2 * kLanes);
    }
    if (columns >= kLanes) {
      column_band<T, 12, 1>(g, a, b, c, bias, k_count, add);
      advance(kLanes);
    }
  } else {  // 16 registers
    while (columns >= kLanes) {
      column_band<T, 6, 1>(g, a, b, c, bias, k_count, add);
      advance(kLanes);
    }
  }
  if (columns > 0) tail_columns(g, a, b, c, bias, columns, k_count, add);
}

/// k in stretches; a sum that is stored and loaded between two of them is the same sum.
template <class T>
void gemm_kernel(const GemmArguments<T>& g) {
  bool add = g.start == GemmStart::kAdd;
  std::size_t k = 0;
  do {
    const std::size_t count = g.k_count - k < kStretch ? g.k_count - k : kStretch;
    gemm_stretch(g, g.a + k * g.k_step, g.b + k * g.b_stride, count, add);
    add = true;
    k += count;
  } while (k < g.k_count);
}

}  // namespace
}  // namespace sirenfeed::model
