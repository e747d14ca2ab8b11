#include "model/gemm.h"

#include "base/check.h"
#include "model/simd.h"

namespace sirenfeed::model {
namespace {

template <class T>
struct Tile {
  const T* a;
  std::size_t row_step;
  std::size_t k_step;
  const T* b;
  std::size_t b_stride;
  std::size_t k_count;
  T* c;
  std::size_t c_stride;
  GemmStart start;
  const T* bias;  // already at the tile's first column
};

/// R rows × V vectors of columns, all of C's tile in registers.
template <class T, int R, int V>
inline void vector_tile(const Tile<T>& t) {
  using Vec = typename Simd<T>::Vec;
  constexpr std::size_t kLanes = Simd<T>::kLanes;
  Vec acc[R][V];
  for (int r = 0; r < R; ++r) {
    for (int v = 0; v < V; ++v) {
      const std::size_t column = static_cast<std::size_t>(v) * kLanes;
      if (t.start == GemmStart::kZero) acc[r][v] = Vec{};
      if (t.start == GemmStart::kBias) acc[r][v] = load(t.bias + column);
      if (t.start == GemmStart::kAdd) {
        acc[r][v] = load(t.c + static_cast<std::size_t>(r) * t.c_stride + column);
      }
    }
  }
  const T* a = t.a;
  const T* b = t.b;
  for (std::size_t k = 0; k < t.k_count; ++k, a += t.k_step, b += t.b_stride) {
    Vec b_row[V];
    for (int v = 0; v < V; ++v) b_row[v] = load(b + static_cast<std::size_t>(v) * kLanes);
    for (int r = 0; r < R; ++r) {
      const T scalar = a[static_cast<std::size_t>(r) * t.row_step];
      for (int v = 0; v < V; ++v) acc[r][v] += b_row[v] * scalar;
    }
  }
  for (int r = 0; r < R; ++r) {
    for (int v = 0; v < V; ++v) {
      store(t.c + static_cast<std::size_t>(r) * t.c_stride + static_cast<std::size_t>(v) * kLanes,
            acc[r][v]);
    }
  }
}

/// R rows of one column.
template <class T, int R>
inline void column_tile(const Tile<T>& t) {
  T acc[R];
  for (int r = 0; r < R; ++r) {
    acc[r] = T{};
    if (t.start == GemmStart::kBias) acc[r] = t.bias[0];
    if (t.start == GemmStart::kAdd) acc[r] = t.c[static_cast<std::size_t>(r) * t.c_stride];
  }
  const T* a = t.a;
  const T* b = t.b;
  for (std::size_t k = 0; k < t.k_count; ++k, a += t.k_step, b += t.b_stride) {
    for (int r = 0; r < R; ++r) acc[r] += a[static_cast<std::size_t>(r) * t.row_step] * b[0];
  }
  for (int r = 0; r < R; ++r) t.c[static_cast<std::size_t>(r) * t.c_stride] = acc[r];
}

template <class T, int R>
void row_band(Tile<T> t, std::size_t columns) {
  constexpr std::size_t kLanes = Simd<T>::kLanes;
  const auto advance = [&](std::size_t n) {
    t.b += n;
    t.c += n;
    if (t.bias != nullptr) t.bias += n;
    columns -= n;
  };
  while (columns >= 2 * kLanes) {
    vector_tile<T, R, 2>(t);
    advance(2 * kLanes);
  }
  if (columns >= kLanes) {
    vector_tile<T, R, 1>(t);
    advance(kLanes);
  }
  while (columns > 0) {
    column_tile<T, R>(t);
    advance(1);
  }
}

}  // namespace

template <class T>
void gemm(GemmLeft<T> a, std::type_identity_t<View<const T>> b, std::type_identity_t<View<T>> c,
          GemmStart start, const T* bias) {
  SF_CHECK(b.cols == c.cols && (start != GemmStart::kBias || bias != nullptr));
  Tile<T> tile{a.data, a.row_step, a.k_step, b.data, b.stride,
               b.rows, c.data,     c.stride, start,  start == GemmStart::kBias ? bias : nullptr};
  std::size_t rows = c.rows;
  const auto advance = [&](std::size_t n) {
    tile.a += n * a.row_step;
    tile.c += n * c.stride;
    rows -= n;
  };
  while (rows >= 4) {
    row_band<T, 4>(tile, c.cols);
    advance(4);
  }
  if (rows == 3) row_band<T, 3>(tile, c.cols);
  if (rows == 2) row_band<T, 2>(tile, c.cols);
  if (rows == 1) row_band<T, 1>(tile, c.cols);
}

template <class T>
void transpose(View<const T> in, std::type_identity_t<View<T>> out) {
  SF_CHECK(out.rows == in.cols && out.cols >= in.rows);
  constexpr std::size_t kBlock = 8;  // a block of both sides stays in the first cache
  for (std::size_t c0 = 0; c0 < in.cols; c0 += kBlock) {
    const std::size_t c1 = c0 + kBlock < in.cols ? c0 + kBlock : in.cols;
    for (std::size_t r = 0; r < in.rows; ++r) {
      const T* from = in.row(r);
      for (std::size_t c = c0; c < c1; ++c) out.data[c * out.stride + r] = from[c];
    }
    for (std::size_t c = c0; c < c1; ++c) {
      for (std::size_t r = in.rows; r < out.cols; ++r) out.data[c * out.stride + r] = T{};
    }
  }
}

template void gemm(GemmLeft<float>, View<const float>, View<float>, GemmStart, const float*);
template void gemm(GemmLeft<double>, View<const double>, View<double>, GemmStart, const double*);
template void transpose(View<const float>, View<float>);
template void transpose(View<const double>, View<double>);

}  // namespace sirenfeed::model
