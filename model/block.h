#pragma once
// One pre-norm layer: rotated attention over the history, then the feed-forward net.
#include <string>
#include <vector>

#include "model/attention.h"
#include "model/layer_norm.h"
#include "model/linear.h"
#include "model/matrix.h"
#include "model/parameters.h"
#include "model/rotation.h"

namespace sirenfeed::model {

/// What a chunk's layers and pooling share.
template <class T>
struct AttentionShared {
  const AttentionPlan* plan = nullptr;
  const Turns<T>* turns = nullptr;  // nullptr: the variant does not rotate
  const T* bias = nullptr;          // nullptr: no logit bias
  View<T> d_turns;                  // [rows, 2P], += in backward (model/rotation.h)
  T* d_bias = nullptr;
  AttentionScratch<T>* scratch = nullptr;
};

/// One tile of inference: its plan and the memory that all layers use in turn.
template <class T>
struct InferTile {
  AttentionPlan plan;
  View<T> x;              // of all tokens; a layer replaces the tile's rows
  std::size_t first = 0;  // stacked token row
  std::size_t count = 0;
  Matrix<T> u;  // LN1, then LN2 [rows, d]
  Matrix<T> q;  // then the branch
  Matrix<T> heads;
  Matrix<T> sum;   // x + a
  Matrix<T> wide;  // [rows, 4d]

  [[nodiscard]] View<T> rows() const { return x.slice(first, count); }
};

template <class T>
class Block {
 public:
  struct State {
    typename LayerNorm<T>::State norm_content;
    typename LayerNorm<T>::State norm_value;
    typename LayerNorm<T>::State norm_middle;
    Matrix<T> u;             // LN1(x) [rows, d]
    Matrix<T> value_in;      // LN1(x + a) [history, d]
    Matrix<T> q;             // rotated [rows, d]
    Matrix<T> k;             // rotated [history, d]
    Matrix<T> v;             // [history, d]
    AlignedVector<T> weights;  // softmax
    Matrix<T> heads;         // concatenated heads [rows, d]
    Matrix<T> attended;      // W_o heads
    Matrix<T> middle;        // x after the attention
    Matrix<T> feed_in;       // LN2(middle)
    Matrix<T> gate;          // of the SiLU [rows, 4d]
    Matrix<T> hidden;
    Matrix<T> fed;
    Matrix<T> out;  // x after the layer [rows, d]
  };
  /// Gradients that live only within one layer's backward; layers share it.
  struct Scratch {
    Matrix<T> d_branch;  // [rows, d]
    Matrix<T> d_wide;    // [rows, 4d]
    Matrix<T> d_q;
    Matrix<T> d_k;
    Matrix<T> d_v;
    Matrix<T> transposed;
  };

  Block(const ModelConfig& config, const ParameterLayout& layout, const std::string& prefix);

  /// x [rows, d], a [history rows, d] (the first rows are the history) → state.out.
  void forward(const T* dense, View<const T> x, View<const T> a, const AttentionShared<T>& shared,
               State& state) const;
  /// Makes room for the keys and values of a chunk's history.
  void resize_keys(std::size_t history, State& state) const;
  /// The tile's rows of x become those after the layer. History first, in order: its tiles (a not
  /// empty) leave their keys and values in `state`, where later tiles find them.
  void infer(const T* dense, View<const T> a, const AttentionShared<T>& shared, InferTile<T>& tile,
             State& state) const;
  /// d_x: in, the gradient of state.out; out, of x. d_a += ….
  void backward(const T* dense, State& state, const AttentionShared<T>& shared, Scratch& scratch,
                T* d_dense, View<T> d_x, View<T> d_a) const;

 private:
  void attention_backward(const T* dense, State& state, const AttentionShared<T>& shared,
                          Scratch& scratch, T* d_dense, View<T> d_x, View<T> d_a) const;
  void feed_forward_backward(const T* dense, State& state, Scratch& scratch, T* d_dense,
                             View<T> d_x) const;

  LayerNorm<T> norm1_;
  LayerNorm<T> norm2_;
  Linear<T> query_;
  Linear<T> key_;
  Linear<T> value_;
  Linear<T> output_;
  Linear<T> feed_in_;
  Linear<T> feed_out_;
  Attention<T> attention_;
  std::size_t empty_;
  std::size_t residual_;
};

extern template class Block<float>;
extern template class Block<double>;

}  // namespace sirenfeed::model
