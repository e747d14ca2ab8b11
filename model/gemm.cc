#include "model/gemm.h"

#include "base/check.h"

namespace sirenfeed::model {

template <class T>
void gemm(GemmLeft<T> a, std::type_identity_t<View<const T>> b, std::type_identity_t<View<T>> c,
          GemmStart start, const T* bias) {
  SF_CHECK(b.cols == c.cols && (start != GemmStart::kBias || bias != nullptr));
  if (c.rows == 0 || c.cols == 0) return;
  kernels<T>().gemm({a.data, a.row_step, a.k_step, b.data, b.stride, c.data, c.stride, c.rows,
                     c.cols, b.rows, start, start == GemmStart::kBias ? bias : nullptr});
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
