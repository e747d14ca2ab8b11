#include "model/block.h"

#include <algorithm>

#include "base/check.h"
#include "model/kernels.h"
#include "model/vector_math.h"

namespace sirenfeed::model {
namespace {

/// out = x + scale · branch.
template <class T>
void add_branch(View<const T> x, const Matrix<T>& branch, T scale, Matrix<T>& out) {
  SF_CHECK(x.stride == x.cols);
  kernels<T>().add_scaled(x.data, branch.data(), scale, out.data(), branch.size());
}

/// d_branch = scale · d_x; returns Σ d_x · branch, the gradient of the scale.
template <class T>
T branch_backward(View<const T> d_x, const Matrix<T>& branch, T scale, Matrix<T>& d_branch) {
  SF_CHECK(d_x.stride == d_x.cols);
  d_branch.resize(d_x.rows, d_x.cols);
  return kernels<T>().scale_and_dot(d_x.data, branch.data(), scale, d_branch.data(),
                                    d_branch.size());
}

}  // namespace

template <class T>
Block<T>::Block(const ModelConfig& config, const ParameterLayout& layout, const std::string& prefix)
    : norm1_(layout, prefix + ".norm1"),
      norm2_(layout, prefix + ".norm2"),
      query_(layout, prefix + ".attention.query"),
      key_(layout, prefix + ".attention.key"),
      value_(layout, prefix + ".attention.value"),
      output_(layout, prefix + ".attention.output"),
      feed_in_(layout, prefix + ".feed_forward.0"),
      feed_out_(layout, prefix + ".feed_forward.1"),
      attention_(static_cast<std::size_t>(config.heads), static_cast<std::size_t>(config.d_model),
                 config.attention_scale),
      empty_(layout.offset(prefix + ".attention.empty")),
      residual_(layout.offset(prefix + ".residual")) {}

template <class T>
void Block<T>::forward(const T* dense, View<const T> x, View<const T> a,
                       const AttentionShared<T>& shared, State& state) const {
  const std::size_t rows = x.rows;
  const std::size_t history = a.rows;
  const std::size_t d = x.cols;
  for (Matrix<T>* matrix : {&state.u, &state.q, &state.heads, &state.attended, &state.middle,
                            &state.feed_in, &state.fed, &state.out}) {
    matrix->resize(rows, d);
  }
  for (Matrix<T>* matrix : {&state.value_in, &state.k, &state.v}) matrix->resize(history, d);
  for (Matrix<T>* matrix : {&state.gate, &state.hidden}) matrix->resize(rows, feed_in_.out());

  norm1_.forward(dense, x, state.norm_content, state.u.view());
  query_.forward(dense, state.u.view(), state.q.view());
  key_.forward(dense, state.u.view().slice(0, history), state.k.view());
  // v holds x + a until it holds the values.
  kernels<T>().add_scaled(x.data, a.data, T{1}, state.v.data(), state.v.size());
  norm1_.forward(dense, state.v.view(), state.norm_value, state.value_in.view());
  value_.forward(dense, state.value_in.view(), state.v.view());
  if (shared.turns != nullptr) {
    rotate(state.q.view(), *shared.turns, 0);
    rotate(state.k.view(), *shared.turns, 0);
  }
  attention_.forward({state.q.view(), state.k.view(), state.v.view(), dense + empty_, shared.bias},
                     *shared.plan, *shared.scratch, state.weights, state.heads.view());
  output_.forward(dense, state.heads.view(), state.attended.view());
  add_branch(x, state.attended, dense[residual_], state.middle);

  norm2_.forward(dense, state.middle.view(), state.norm_middle, state.feed_in.view());
  feed_in_.forward(dense, state.feed_in.view(), state.gate.view());
  silu_of(state.gate.data(), state.gate.data(), state.hidden.data(), state.hidden.size());
  feed_out_.forward(dense, state.hidden.view(), state.fed.view());
  add_branch<T>(state.middle.view(), state.fed, dense[residual_ + 1], state.out);
}

template <class T>
void Block<T>::resize_keys(std::size_t history, State& state) const {
  state.k.resize(history, query_.out());
  state.v.resize(history, query_.out());
}

template <class T>
void Block<T>::infer(const T* dense, View<const T> a, const AttentionShared<T>& shared,
                     InferTile<T>& tile, State& state) const {
  const View<T> x = tile.rows();
  for (Matrix<T>* matrix : {&tile.u, &tile.q, &tile.heads}) matrix->resize(x.rows, x.cols);
  norm1_.infer(dense, x, tile.u.view());
  query_.forward(dense, tile.u.view(), tile.q.view());
  if (shared.turns != nullptr) rotate(tile.q.view(), *shared.turns, tile.first);
  if (a.rows > 0) {  // history: stacked rows are rows of a, k and v too
    const View<T> k = state.k.view().slice(tile.first, x.rows);
    key_.forward(dense, tile.u.view(), k);
    if (shared.turns != nullptr) rotate(k, *shared.turns, tile.first);
    tile.sum.resize(x.rows, x.cols);
    kernels<T>().add_scaled(x.data, a.row(tile.first), T{1}, tile.sum.data(), tile.sum.size());
    norm1_.infer(dense, tile.sum.view(), tile.u.view());
    value_.forward(dense, tile.u.view(), state.v.view().slice(tile.first, x.rows));
  }
  attention_.infer({tile.q.view(), state.k.view(), state.v.view(), dense + empty_, shared.bias},
                   tile.plan, nullptr, *shared.scratch, tile.heads.view());
  output_.forward(dense, tile.heads.view(), tile.q.view());
  kernels<T>().add_scaled(x.data, tile.q.data(), dense[residual_], x.data, tile.q.size());

  norm2_.infer(dense, x, tile.u.view());
  tile.wide.resize(x.rows, feed_in_.out());
  feed_in_.forward(dense, tile.u.view(), tile.wide.view());
  kernels<T>().silu_alone(tile.wide.data(), tile.wide.data(), tile.wide.size());
  feed_out_.forward(dense, tile.wide.view(), tile.q.view());
  kernels<T>().add_scaled(x.data, tile.q.data(), dense[residual_ + 1], x.data, tile.q.size());
}

template <class T>
void Block<T>::backward(const T* dense, State& state, const AttentionShared<T>& shared,
                        Scratch& scratch, T* d_dense, View<T> d_x, View<T> d_a) const {
  feed_forward_backward(dense, state, scratch, d_dense, d_x);
  attention_backward(dense, state, shared, scratch, d_dense, d_x, d_a);
}

template <class T>
void Block<T>::feed_forward_backward(const T* dense, State& state, Scratch& scratch, T* d_dense,
                                     View<T> d_x) const {
  d_dense[residual_ + 1] +=
      branch_backward<T>(d_x, state.fed, dense[residual_ + 1], scratch.d_branch);
  scratch.d_wide.resize(d_x.rows, feed_in_.out());
  feed_out_.backward(dense, state.hidden.view(), scratch.d_branch.view(), d_dense,
                     scratch.d_wide.view(), {}, scratch.transposed);
  silu_backward(state.gate.data(), state.hidden.data(), scratch.d_wide.data(),
                scratch.d_wide.data(), state.hidden.size());
  feed_in_.backward(dense, state.feed_in.view(), scratch.d_wide.view(), d_dense,
                    scratch.d_branch.view(), {}, scratch.transposed);
  norm2_.backward(dense, state.norm_middle, scratch.d_branch.view(), d_dense, d_x);
}

template <class T>
void Block<T>::attention_backward(const T* dense, State& state, const AttentionShared<T>& shared,
                                  Scratch& scratch, T* d_dense, View<T> d_x, View<T> d_a) const {
  const std::size_t history = d_a.rows;
  const std::size_t d = d_x.cols;
  d_dense[residual_] += branch_backward<T>(d_x, state.attended, dense[residual_], scratch.d_branch);
  // d_heads takes the place of `attended`, which is no longer needed.
  Matrix<T>& d_heads = state.attended;
  output_.backward(dense, state.heads.view(), scratch.d_branch.view(), d_dense, d_heads.view(), {},
                   scratch.transposed);
  scratch.d_q.resize(d_x.rows, d);
  scratch.d_k.resize(history, d);
  scratch.d_v.resize(history, d);
  attention_.backward({state.q.view(), state.k.view(), state.v.view(), dense + empty_, shared.bias},
                      *shared.plan, state.weights, d_heads.view(), nullptr, *shared.scratch,
                      {scratch.d_q.view(), scratch.d_k.view(), scratch.d_v.view(), d_dense + empty_,
                       shared.d_bias});
  if (shared.turns != nullptr) {
    rotate_backward<T>(scratch.d_q.view(), state.q.view(), *shared.turns, 0, shared.d_turns);
    rotate_backward<T>(scratch.d_k.view(), state.k.view(), *shared.turns, 0, shared.d_turns);
  }
  const View<T> d_u = scratch.d_branch.view();
  query_.backward(dense, state.u.view(), scratch.d_q.view(), d_dense, d_u, {}, scratch.transposed);
  key_.backward(dense, state.u.view().slice(0, history), scratch.d_k.view(), d_dense,
                d_u.slice(0, history), {.add = true}, scratch.transposed);
  norm1_.backward(dense, state.norm_content, d_u, d_dense, d_x);

  // The value's input is x + a, so its gradient goes to both.
  const View<T> d_value_in = scratch.d_k.view();
  value_.backward(dense, state.value_in.view(), scratch.d_v.view(), d_dense, d_value_in, {},
                  scratch.transposed);
  const View<T> d_sum = scratch.d_v.view();
  for (std::size_t r = 0; r < history; ++r) std::fill_n(d_sum.row(r), d, T{});
  norm1_.backward(dense, state.norm_value, d_value_in, d_dense, d_sum);
  for (std::size_t r = 0; r < history; ++r) {
    for (std::size_t c = 0; c < d; ++c) {
      d_x.row(r)[c] += d_sum.row(r)[c];
      d_a.row(r)[c] += d_sum.row(r)[c];
    }
  }
}

template class Block<float>;
template class Block<double>;

}  // namespace sirenfeed::model
