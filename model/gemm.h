#pragma once
// The one matrix product under every layer. Each element of the result is one chain of
// multiply-adds over k in ascending order, whatever the number of rows: so a row's bits do not
// depend on its neighbours, which a blocked library product does not promise (its remainder rows
// and its cache-sized blocks sum in another order).
#include <cstddef>

#include "model/kernels.h"
#include "model/matrix.h"

namespace sirenfeed::model {

/// A operand: element (r, k) is data[r · row_step + k · k_step]; a transposed view swaps the steps.
template <class T>
struct GemmLeft {
  const T* data = nullptr;
  std::size_t row_step = 0;
  std::size_t k_step = 0;
};

template <class T>
[[nodiscard]] GemmLeft<T> left(View<const T> a) {
  return {a.data, a.stride, 1};
}
template <class T>
[[nodiscard]] GemmLeft<T> left_transposed(View<const T> a) {
  return {a.data, 1, a.stride};
}

/// C [M, N] from A [M, K] and B [K, N] with M, N = c.rows, c.cols and K = b.rows. `bias` only for
/// kBias.
template <class T>
void gemm(GemmLeft<T> a, std::type_identity_t<View<const T>> b, std::type_identity_t<View<T>> c,
          GemmStart start, const T* bias = nullptr);

extern template void gemm(GemmLeft<float>, View<const float>, View<float>, GemmStart, const float*);
extern template void gemm(GemmLeft<double>, View<const double>, View<double>, GemmStart,
                          const double*);

/// out [in.cols, in.rows] = inᵀ; columns of out past in.rows, up to out.cols, become 0.
template <class T>
void transpose(View<const T> in, std::type_identity_t<View<T>> out);
extern template void transpose(View<const float>, View<float>);
extern template void transpose(View<const double>, View<double>);

}  // namespace sirenfeed::model
