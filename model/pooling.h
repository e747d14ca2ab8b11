#pragma once
// The candidate's own attention over the history's actions: b, and the same weights' average of the
// action bits, B.
#include <vector>

#include "model/block.h"

namespace sirenfeed::model {

template <class T>
class Pooling {
 public:
  struct State {
    Matrix<T> q;             // rotated [candidates, d]
    Matrix<T> k;             // rotated [history, d]
    Matrix<T> v;             // [history, d]
    AlignedVector<T> weights;  // [range][heads, candidates, padded keys]
    Matrix<T> heads;
    Matrix<T> pooled;  // b [candidates, d]
    Matrix<T> bits;    // centred action bits [history, padded (A + 1)]
    Matrix<T> bits_transposed;
    Matrix<T> averaged;  // of one head [candidates, padded (A + 1)]
    Matrix<T> actions;   // B [candidates, H (A + 1)]
    AlignedVector<T> d_weights;
    Matrix<T> d_q;
    Matrix<T> d_k;
    Matrix<T> d_v;
    Matrix<T> d_heads;
    Matrix<T> transposed;
  };

  Pooling(const ModelConfig& config, const ParameterLayout& layout);

  /// x [all rows, d] after the layers; a [history rows, d]. `shared.plan` is plan_pooling's.
  void forward(const BasicModel<T>& model, const ChunkIndex& index, View<const T> x,
               View<const T> a, const AttentionShared<T>& shared, State& state) const;
  /// Keys, values and action bits of the history, for infer().
  void infer_history(const BasicModel<T>& model, const ChunkIndex& index, View<const T> x,
                     View<const T> a, const AttentionShared<T>& shared, State& state) const;
  /// state.pooled and state.actions of a tile of candidates, its rows first.
  void infer(const T* dense, const AttentionShared<T>& shared, const InferTile<T>& tile,
             State& state) const;
  /// d_pooled like b, d_actions like B (its columns may be strided). d_x, d_a += ….
  void backward(const BasicModel<T>& model, View<const T> x, View<const T> a, State& state,
                const AttentionShared<T>& shared, View<const T> d_pooled, View<const T> d_actions,
                T* d_dense, View<T> d_x, View<T> d_a) const;

 private:
  void centre_bits(const BasicModel<T>& model, const ChunkIndex& index, State& state) const;

  std::size_t n_heads_;
  std::size_t n_bits_;  // A + 1
  Linear<T> query_;
  Linear<T> key_;
  Linear<T> value_;
  Linear<T> output_;
  Attention<T> attention_;
  std::size_t empty_;
};

extern template class Pooling<float>;
extern template class Pooling<double>;

}  // namespace sirenfeed::model
