#pragma once
// Three linear layers with SiLU between them: the last part of the head, and the counter tower.
#include <string>

#include "model/linear.h"
#include "model/matrix.h"
#include "model/parameters.h"

namespace sirenfeed::model {

/// Const and thread-safe; mutable memory is in the State.
template <class T>
class Perceptron {
 public:
  struct State {
    Matrix<T> input;  // [rows, in], filled by the caller
    Matrix<T> gate0;
    Matrix<T> hidden0;
    Matrix<T> gate1;
    Matrix<T> hidden1;
    Matrix<T> d_hidden;
    Matrix<T> d_before;
    Matrix<T> transposed;
  };

  Perceptron() = default;
  /// The tensors prefix.{0,1,2}.{weight,bias} of the layout, which must have them.
  Perceptron(const ParameterLayout& layout, const std::string& prefix);

  [[nodiscard]] std::size_t in() const { return layer0_.in(); }
  [[nodiscard]] std::size_t out() const { return layer2_.out(); }

  /// state.input → z [rows, out]. `dense` is what the layout's offsets point into.
  void forward(const T* dense, State& state, View<T> z) const;
  /// forward() to the bit, without what backward() needs.
  void infer(const T* dense, State& state, View<T> z) const;
  /// Of the last forward(): d_dense += …; d_input [rows, in] overwritten unless its data is null.
  void backward(const T* dense, State& state, View<const T> d_z, T* d_dense, View<T> d_input) const;

 private:
  Linear<T> layer0_;
  Linear<T> layer1_;
  Linear<T> layer2_;
};

extern template class Perceptron<float>;
extern template class Perceptron<double>;

}  // namespace sirenfeed::model
