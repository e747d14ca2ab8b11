#include "model/gemm.h"

#include <algorithm>

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
  kernels<T>().transpose(in.data, in.stride, in.rows, in.cols, out.data, out.stride);
  for (std::size_t c = 0; c < in.cols && in.rows < out.cols; ++c) {
    std::fill(out.row(c) + in.rows, out.row(c) + out.cols, T{});
  }
}

template void gemm(GemmLeft<float>, View<const float>, View<float>, GemmStart, const float*);
template void gemm(GemmLeft<double>, View<const double>, View<double>, GemmStart, const double*);
template void transpose(View<const float>, View<float>);
template void transpose(View<const double>, View<double>);

}  // namespace sirenfeed::model
