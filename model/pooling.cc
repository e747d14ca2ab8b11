#include "model/pooling.h"

#include <algorithm>

#include "model/gemm.h"

namespace sirenfeed::model {
namespace {

/// Calls function(slate, range, head, offset of the head's weights).
template <class Function>
void for_each_head(const AttentionPlan& plan, std::size_t heads, Function function) {
  for (const AttentionSlate& slate : plan.used()) {
    for (const QueryRange& range : slate.ranges) {
      for (std::size_t head = 0; head < heads; ++head) {
        function(slate, range, head, range.weights + head * range.count * slate.key_padded);
      }
    }
  }
}

}  // namespace

template <class T>
Pooling<T>::Pooling(const ModelConfig& config, const ParameterLayout& layout)
    : n_heads_(static_cast<std::size_t>(config.heads)),
      n_bits_(config.n_actions() + 1),
      query_(layout, "pooling.query"),
      key_(layout, "pooling.key"),
      value_(layout, "pooling.value"),
      output_(layout, "pooling.output"),
      attention_(n_heads_, static_cast<std::size_t>(config.d_model), config.attention_scale),
      empty_(layout.offset("pooling.empty")) {}

template <class T>
void Pooling<T>::centre_bits(const BasicModel<T>& model, const ChunkIndex& index,
                             State& state) const {
  state.bits.resize_zero(index.history_rows, padded<T>(n_bits_));
  for (std::size_t r = 0; r < index.history_rows; ++r) {
    for (std::size_t bit = 0; bit < n_bits_; ++bit) {
      const T set = (index.tokens[r].action_bits >> bit & 1U) != 0 ? T{1} : T{};
      state.bits.row(r)[bit] = set - static_cast<T>(model.statistics.action_mean[bit]);
    }
  }
}

template <class T>
void Pooling<T>::infer_history(const BasicModel<T>& model, const ChunkIndex& index, View<const T> x,
                               View<const T> a, const AttentionShared<T>& shared,
                               State& state) const {
  const T* dense = model.dense.data();
  for (Matrix<T>* matrix : {&state.k, &state.v}) matrix->resize(a.rows, x.cols);
  key_.forward(dense, x.slice(0, a.rows), state.k.view());
  value_.forward(dense, a, state.v.view());
  if (shared.turns != nullptr) rotate(state.k.view(), *shared.turns, 0);
  centre_bits(model, index, state);
}

template <class T>
void Pooling<T>::infer(const T* dense, const AttentionShared<T>& shared, const InferTile<T>& tile,
                       State& state) const {
  const View<T> x = tile.rows();
  for (Matrix<T>* matrix : {&state.q, &state.heads, &state.pooled}) matrix->resize(x.rows, x.cols);
  state.actions.resize(x.rows, n_heads_ * n_bits_);
  query_.forward(dense, x, state.q.view());
  if (shared.turns != nullptr) rotate(state.q.view(), *shared.turns, tile.first);
  const typename Attention<T>::Bits bits{state.bits.view(), n_bits_, state.actions.view()};
  attention_.infer({state.q.view(), state.k.view(), state.v.view(), dense + empty_, shared.bias},
                   tile.plan, &bits, *shared.scratch, state.heads.view());
  output_.forward(dense, state.heads.view(), state.pooled.view());
}

template <class T>
void Pooling<T>::forward(const BasicModel<T>& model, const ChunkIndex& index, View<const T> x,
                         View<const T> a, const AttentionShared<T>& shared, State& state) const {
  const T* dense = model.dense.data();
  const std::size_t history = a.rows;
  const std::size_t candidates = x.rows - history;
  for (Matrix<T>* matrix : {&state.q, &state.heads, &state.pooled}) {
    matrix->resize(candidates, x.cols);
  }
  for (Matrix<T>* matrix : {&state.k, &state.v}) matrix->resize(history, x.cols);
  query_.forward(dense, x.slice(history, candidates), state.q.view());
  key_.forward(dense, x.slice(0, history), state.k.view());
  value_.forward(dense, a, state.v.view());
  if (shared.turns != nullptr) {
    rotate(state.q.view(), *shared.turns, history);
    rotate(state.k.view(), *shared.turns, 0);
  }
  attention_.forward({state.q.view(), state.k.view(), state.v.view(), dense + empty_, shared.bias},
                     *shared.plan, *shared.scratch, state.weights, state.heads.view());
  output_.forward(dense, state.heads.view(), state.pooled.view());

  centre_bits(model, index, state);
  const std::size_t bits_padded = state.bits.cols();
  state.actions.resize(candidates, n_heads_ * n_bits_);
  for_each_head(*shared.plan, n_heads_,
                [&](const AttentionSlate& slate, const QueryRange& range, std::size_t head,
                    std::size_t offset) {
                  state.averaged.resize(range.count, bits_padded);
                  const View<const T> weights{state.weights.data() + offset, range.count,
                                              slate.key_count, slate.key_padded};
                  gemm(left(weights), state.bits.view().slice(slate.key_begin, slate.key_count),
                       state.averaged.view(), GemmStart::kZero);
                  for (std::size_t r = 0; r < range.count; ++r) {
                    std::copy_n(state.averaged.row(r), n_bits_,
                                state.actions.row(range.begin + r) + head * n_bits_);
                  }
                });
}

template <class T>
void Pooling<T>::backward(const BasicModel<T>& model, View<const T> x, View<const T> a,
                          State& state, const AttentionShared<T>& shared, View<const T> d_pooled,
                          View<const T> d_actions, T* d_dense, View<T> d_x, View<T> d_a) const {
  const T* dense = model.dense.data();
  const std::size_t history = a.rows;
  const std::size_t candidates = x.rows - history;
  const std::size_t d = x.cols;
  state.d_heads.resize(candidates, d);
  output_.backward(dense, state.heads.view(), d_pooled, d_dense, state.d_heads.view(), {},
                   state.transposed);
  if (state.d_weights.size() < shared.plan->weights_size) {
    state.d_weights.resize(shared.plan->weights_size);
  }
  for_each_head(
      *shared.plan, n_heads_,
      [&](const AttentionSlate& slate, const QueryRange& range, std::size_t head,
          std::size_t offset) {
        state.bits_transposed.resize(n_bits_, slate.key_padded);
        transpose(View<const T>(state.bits.view())
                      .slice(slate.key_begin, slate.key_count)
                      .columns(0, n_bits_),
                  state.bits_transposed.view());
        gemm(left(d_actions.slice(range.begin, range.count).columns(head * n_bits_, n_bits_)),
             state.bits_transposed.view(),
             View<T>{state.d_weights.data() + offset, range.count, slate.key_padded,
                     slate.key_padded},
             GemmStart::kZero);
      });
  state.d_q.resize(candidates, d);
  state.d_k.resize(history, d);
  state.d_v.resize(history, d);
  attention_.backward(
      {state.q.view(), state.k.view(), state.v.view(), dense + empty_, shared.bias}, *shared.plan,
      state.weights, state.d_heads.view(), state.d_weights.data(), *shared.scratch,
      {state.d_q.view(), state.d_k.view(), state.d_v.view(), d_dense + empty_, shared.d_bias});
  if (shared.turns != nullptr) {
    rotate_backward<T>(state.d_q.view(), state.q.view(), *shared.turns, history, shared.d_turns);
    rotate_backward<T>(state.d_k.view(), state.k.view(), *shared.turns, 0, shared.d_turns);
  }
  query_.backward(dense, x.slice(history, candidates), state.d_q.view(), d_dense,
                  d_x.slice(history, candidates), {.add = true}, state.transposed);
  key_.backward(dense, x.slice(0, history), state.d_k.view(), d_dense, d_x.slice(0, history),
                {.add = true}, state.transposed);
  value_.backward(dense, a, state.d_v.view(), d_dense, d_a, {.add = true}, state.transposed);
}

template class Pooling<float>;
template class Pooling<double>;

}  // namespace sirenfeed::model
