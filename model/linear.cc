#include "model/linear.h"

#include "base/check.h"
#include "model/gemm.h"

namespace sirenfeed::model {

template <class T>
Linear<T>::Linear(const ParameterLayout& layout, const std::string& prefix)
    : Linear(without_bias(layout, prefix + ".weight")) {
  if (const TensorSpec* bias = layout.find(prefix + ".bias"); bias != nullptr) {
    bias_ = bias->offset;
    has_bias_ = true;
  }
}

template <class T>
Linear<T> Linear<T>::without_bias(const ParameterLayout& layout, const std::string& weight_name) {
  const TensorSpec* weight = layout.find(weight_name);
  SF_CHECK(weight != nullptr && weight->transposed);
  Linear linear;
  linear.weight_ = weight->offset;
  linear.out_ = weight->shape[0];
  linear.in_ = weight->shape[1];
  return linear;
}

template <class T>
void Linear<T>::forward(const T* dense, View<const T> x, View<T> y) const {
  gemm(left(x), View<const T>{dense + weight_, in_, out_, out_}, y,
       has_bias_ ? GemmStart::kBias : GemmStart::kZero, dense + bias_);
}

template <class T>
void Linear<T>::add_forward(const T* dense, View<const T> x, View<T> y) const {
  gemm(left(x), View<const T>{dense + weight_, in_, out_, out_}, y, GemmStart::kAdd);
}

template <class T>
void Linear<T>::backward(const T* dense, View<const T> x, View<const T> d_y, T* d_dense,
                         View<T> d_x, BackwardOptions options, Matrix<T>& scratch) const {
  gemm(left_transposed(x), d_y, View<T>{d_dense + weight_, in_, out_, out_}, GemmStart::kAdd);
  if (has_bias_) {
    kernels<T>().add_columns(d_y.data, d_y.stride, d_y.rows, out_, d_dense + bias_);
  }
  if (d_x.data == nullptr) return;
  scratch.resize(out_, in_);
  transpose(View<const T>{dense + weight_, in_, out_, out_}, scratch.view());
  gemm(left(d_y), scratch.view(), d_x, options.add ? GemmStart::kAdd : GemmStart::kZero);
}

template class Linear<float>;
template class Linear<double>;

}  // namespace sirenfeed::model
