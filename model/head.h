#pragma once
// From a candidate's token, pooled history, context and action averages to z.
#include "model/layer_norm.h"
#include "model/linear.h"
#include "model/matrix.h"
#include "model/model.h"
#include "model/perceptron.h"

namespace sirenfeed::model {

template <class T>
class Head {
 public:
  struct State {
    typename LayerNorm<T>::State norm_token;
    typename LayerNorm<T>::State norm_pooled;
    typename Perceptron<T>::State mlp;  // input [candidates, 2d + F + H (A + 1)]
    Matrix<T> z;                        // [candidates, K]
    Matrix<T> d_input;
    Matrix<T> transposed;
  };
  struct Inputs {
    View<const T> token;    // x after the layers [candidates, d]
    View<const T> pooled;   // b [candidates, d]
    View<const T> actions;  // B [candidates, H (A + 1)]
  };

  Head(const ModelConfig& config, const ParameterLayout& layout);

  /// `chunk`'s candidates in order → state.z.
  void forward(const BasicModel<T>& model, std::span<const Slate* const> chunk,
               const Inputs& inputs, State& state) const;
  /// forward() for the candidates from `first` on, as many as `inputs` has rows → the same rows of
  /// state.z, which has all of the chunk's.
  void infer(const BasicModel<T>& model, std::span<const Slate* const> chunk, std::size_t first,
             const Inputs& inputs, State& state) const;
  /// d_token += …, d_pooled overwritten. Returns d B as columns of state.d_input.
  View<const T> backward(const BasicModel<T>& model, State& state, View<const T> d_z, T* d_dense,
                         View<T> d_token, View<T> d_pooled) const;

 private:
  std::size_t d_;
  std::size_t n_context_;
  std::size_t n_pooled_actions_;
  LayerNorm<T> norm_token_;
  LayerNorm<T> norm_pooled_;
  Perceptron<T> mlp_;
  Linear<T> wide_actions_;
  Linear<T> wide_context_;
};

extern template class Head<float>;
extern template class Head<double>;

}  // namespace sirenfeed::model
