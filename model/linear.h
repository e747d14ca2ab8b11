#pragma once
#include <cstddef>
#include <string>

#include "model/matrix.h"
#include "model/parameters.h"

namespace sirenfeed::model {

/// y = x·Wᵀ + b over stacked rows. Holds offsets into the flat buffer, no values.
template <class T>
class Linear {
 public:
  Linear() = default;
  /// The tensors prefix.weight and, where the layout has it, prefix.bias.
  Linear(const ParameterLayout& layout, const std::string& prefix);
  /// A weight of its own name without bias.
  static Linear without_bias(const ParameterLayout& layout, const std::string& weight_name);

  [[nodiscard]] std::size_t in() const { return in_; }
  [[nodiscard]] std::size_t out() const { return out_; }

  /// x [rows, in] → y [rows, out].
  void forward(const T* dense, View<const T> x, View<T> y) const;
  /// y += x·Wᵀ, without the bias.
  void add_forward(const T* dense, View<const T> x, View<T> y) const;

  /// dW, db += …; d_x = d_y·W, or += with `add`; no d_x where d_x.data is null. `scratch` takes Wᵀ.
  struct BackwardOptions {
    bool add = false;
  };
  void backward(const T* dense, View<const T> x, View<const T> d_y, T* d_dense, View<T> d_x,
                BackwardOptions options, Matrix<T>& scratch) const;

 private:
  std::size_t weight_ = 0;
  std::size_t bias_ = 0;
  bool has_bias_ = false;
  std::size_t in_ = 0;
  std::size_t out_ = 0;
};

extern template class Linear<float>;
extern template class Linear<double>;

}  // namespace sirenfeed::model
