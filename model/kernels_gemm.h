#pragma once
// The matrix product.
// Only for kernels_v3.cc and kernels_v4.cc: all of it has internal linkage and is compiled for the
// includer's CPU level (see model/kernels.h).
#include "model/kernels_pack.h"

namespace sirenfeed::model {
namespace {

/// Whole packs of columns, the common case.
template <class T>
struct WholePacks {
  SF_INLINE Pack<T> load(const T* from) const { return Pack<T>::load(from); }
  SF_INLINE void store(Pack<T> pack, T* to) const { pack.store(to); }
};
/// The last columns, fewer than a pack.
template <class T>
struct PartOfPack {
  std::size_t columns;
  SF_INLINE Pack<T> load(const T* from) const { return Pack<T>::load_first(from, columns); }
  SF_INLINE void store(Pack<T> pack, T* to) const { pack.store_first(to, columns); }
};

/// A band of columns of C and the operands of it.
template <class T>
struct Band {
  const T* a;
  const T* b;
  T* c;
  const T* bias;
  std::size_t k_count;
  bool add;
};

/// R rows × V packs of columns, all of C's tile in registers.
template <class T, int R, int V, class Columns>
SF_INLINE void pack_tile(const GemmArguments<T>& g, const Band<T>& band, Columns columns) {
  constexpr std::size_t kLanes = Pack<T>::kLanes;
  Pack<T> acc[R][V];
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) {
      const std::size_t column = static_cast<std::size_t>(v) * kLanes;
      if (band.add) {
        acc[r][v] = columns.load(band.c + static_cast<std::size_t>(r) * g.c_stride + column);
      } else {
        acc[r][v] = band.bias == nullptr ? Pack<T>::all(T{}) : columns.load(band.bias + column);
      }
    }
  }
  // A pointer for every third row: three rows are one base with three offsets.
  constexpr int kBases = (R + 2) / 3;
  const T* base[kBases];
  for (int i = 0; i < kBases; ++i) base[i] = band.a + static_cast<std::size_t>(3 * i) * g.row_step;
  const T* b = band.b;
  for (std::size_t k = 0; k < band.k_count; ++k, b += g.b_stride) {
    Pack<T> b_row[V];
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) b_row[v] = columns.load(b + static_cast<std::size_t>(v) * kLanes);
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
      columns.store(acc[r][v], band.c + static_cast<std::size_t>(r) * g.c_stride +
                                   static_cast<std::size_t>(v) * kLanes);
    }
  }
}

/// One tile of `rows` ≤ R rows.
template <class T, int R, int V, class Columns>
SF_INLINE void tile_of(const GemmArguments<T>& g, const Band<T>& band, Columns columns,
                       std::size_t rows) {
  if (rows == R) {
    pack_tile<T, R, V>(g, band, columns);
  } else if constexpr (R > 1) {
    tile_of<T, R - 1, V>(g, band, columns, rows);
  }
}

/// All rows of V packs of columns. Between one and two tiles of rows become two halves: a tile of a
/// few rows has too few sums to keep the multipliers busy.
template <class T, int R, int V, class Columns>
SF_INLINE void column_band(const GemmArguments<T>& g, Band<T> band, Columns columns) {
  std::size_t rows = g.rows;
  while (rows > 0) {
    std::size_t count = R;
    if (rows < 2 * R) count = rows <= R ? rows : (rows + 1) / 2;
    tile_of<T, R, V>(g, band, columns, count);
    band.a += count * g.row_step;
    band.c += count * g.c_stride;
    rows -= count;
  }
}

constexpr std::size_t kStretch = 128;  // of k: its part of A and B stays in the first cache

/// One stretch of k, column band by column band.
template <class T>
SF_INLINE void gemm_stretch(const GemmArguments<T>& g, const T* a, const T* b, std::size_t k_count,
                            bool add) {
  constexpr std::size_t kLanes = Pack<T>::kLanes;
  constexpr WholePacks<T> kWhole;
  Band<T> band{a, b, g.c, g.start == GemmStart::kBias ? g.bias : nullptr, k_count, add};
  std::size_t columns = g.cols;
  const auto advance = [&](std::size_t n) {
    band.b += n;
    band.c += n;
    if (band.bias != nullptr) band.bias += n;
    columns -= n;
  };
  constexpr int kTall = kParts == 1 ? 16 : 6;  // 32 registers or 16
  if constexpr (kParts == 1) {
    while (columns >= 4 * kLanes) {
      column_band<T, 6, 4>(g, band, kWhole);
      advance(4 * kLanes);
    }
    if (columns >= 2 * kLanes) {
      column_band<T, 12, 2>(g, band, kWhole);
      advance(2 * kLanes);
    }
  }
  while (columns >= kLanes) {
    column_band<T, kTall, 1>(g, band, kWhole);
    advance(kLanes);
  }
  if (columns > 0) column_band<T, kTall, 1>(g, band, PartOfPack<T>{columns});
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
