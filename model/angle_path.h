#pragma once
#include <string>
#include <vector>

#include "model/linear.h"
#include "model/matrix.h"

namespace sirenfeed::model {

enum class Activation { kSine, kRelu };

/// A sine path, h ← sin(ω₀ (W h + b)), or a ReLU path, h ← max(W h + b, 0), for every hidden layer,
/// then a linear layer to the planes.
template <class T>
class AnglePath {
 public:
  /// Inputs of the hidden layers' activations (times ω₀ on a sine path), and their outputs.
  struct State {
    std::vector<Matrix<T>> before;
    std::vector<Matrix<T>> after;
    Matrix<T> d_hidden;
    Matrix<T> d_before;
    Matrix<T> scratch;
  };

  AnglePath() = default;
  AnglePath(const ParameterLayout& layout, const std::string& prefix, int hidden_layers,
            Activation activation, double omega0);

  /// in [rows, features] → out [rows, P].
  void forward(const T* dense, View<const T> in, State& state, View<T> out) const;
  /// d_dense += …; d_in overwritten unless its data is null.
  void backward(const T* dense, View<const T> in, State& state, View<const T> d_out, T* d_dense,
                View<T> d_in) const;

 private:
  std::vector<Linear<T>> layers_;
  Activation activation_ = Activation::kSine;
  T omega0_ = T{1};
};

extern template class AnglePath<float>;
extern template class AnglePath<double>;

}  // namespace sirenfeed::model
