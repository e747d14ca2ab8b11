#include "model/head.h"

#include <algorithm>

#include "model/standardise.h"

namespace sirenfeed::model {
namespace {

/// ĉ of the chunk's candidates from `first` on, as many as `out` has rows.
template <class T>
void standardise_chunk(const BasicModel<T>& model, std::span<const Slate* const> chunk,
                       std::size_t first, View<T> out) {
  const std::size_t width = model.config.context_row_width();
  std::size_t row = 0;  // of out
  std::size_t before = 0;
  for (const Slate* slate : chunk) {
    const std::size_t count = slate->candidates.size();
    for (std::size_t c = first > before ? first - before : 0; c < count && row < out.rows;
         ++c, ++row) {
      standardise(model.statistics, slate->context.data() + c * width, out.cols, out.row(row));
    }
    before += count;
  }
}

}  // namespace

template <class T>
Head<T>::Head(const ModelConfig& config, const ParameterLayout& layout)
    : d_(static_cast<std::size_t>(config.d_model)),
      n_context_(config.n_context()),
      n_pooled_actions_(config.pooled_actions()),
      norm_token_(layout, "head.norm_token"),
      norm_pooled_(layout, "head.norm_pooled"),
      mlp_(layout, "head"),
      wide_actions_(Linear<T>::without_bias(layout, "head.wide.action_weight")),
      wide_context_(Linear<T>::without_bias(layout, "head.wide.context_weight")) {}

// The perceptron's z plus the wide terms, which read the same input.
template <class T>
void Head<T>::forward(const BasicModel<T>& model, std::span<const Slate* const> chunk,
                      const Inputs& inputs, State& state) const {
  const T* dense = model.dense.data();
  const std::size_t rows = inputs.token.rows;
  state.mlp.input.resize(rows, mlp_.in());
  const View<T> input = state.mlp.input.view();
  const View<T> context = input.columns(2 * d_, n_context_);
  const View<T> actions = input.columns(2 * d_ + n_context_, n_pooled_actions_);
  norm_token_.forward(dense, inputs.token, state.norm_token, input.columns(0, d_));
  norm_pooled_.forward(dense, inputs.pooled, state.norm_pooled, input.columns(d_, d_));
  standardise_chunk(model, chunk, 0, context);
  for (std::size_t r = 0; r < rows; ++r) {
    std::copy_n(inputs.actions.row(r), n_pooled_actions_, actions.row(r));
  }
  state.z.resize(rows, mlp_.out());
  mlp_.forward(dense, state.mlp, state.z.view());
  wide_actions_.add_forward(dense, actions, state.z.view());
  wide_context_.add_forward(dense, context, state.z.view());
}

template <class T>
void Head<T>::infer(const BasicModel<T>& model, std::span<const Slate* const> chunk,
                    std::size_t first, const Inputs& inputs, State& state) const {
  const T* dense = model.dense.data();
  const std::size_t rows = inputs.token.rows;
  state.mlp.input.resize(rows, mlp_.in());
  const View<T> input = state.mlp.input.view();
  const View<T> context = input.columns(2 * d_, n_context_);
  const View<T> actions = input.columns(2 * d_ + n_context_, n_pooled_actions_);
  norm_token_.infer(dense, inputs.token, input.columns(0, d_));
  norm_pooled_.infer(dense, inputs.pooled, input.columns(d_, d_));
  standardise_chunk(model, chunk, first, context);
  for (std::size_t r = 0; r < rows; ++r) {
    std::copy_n(inputs.actions.row(r), n_pooled_actions_, actions.row(r));
  }
  const View<T> z = state.z.view().slice(first, rows);
  mlp_.infer(dense, state.mlp, z);
  wide_actions_.add_forward(dense, actions, z);
  wide_context_.add_forward(dense, context, z);
}

template <class T>
View<const T> Head<T>::backward(const BasicModel<T>& model, State& state, View<const T> d_z,
                                T* d_dense, View<T> d_token, View<T> d_pooled) const {
  const T* dense = model.dense.data();
  const View<T> input = state.mlp.input.view();
  state.d_input.resize(input.rows, input.cols);
  const View<T> d_input = state.d_input.view();
  mlp_.backward(dense, state.mlp, d_z, d_dense, d_input);
  const View<T> d_actions = d_input.columns(2 * d_ + n_context_, n_pooled_actions_);
  wide_context_.backward(dense, input.columns(2 * d_, n_context_), d_z, d_dense, View<T>{}, {},
                         state.transposed);
  wide_actions_.backward(dense, input.columns(2 * d_ + n_context_, n_pooled_actions_), d_z, d_dense,
                         d_actions, {.add = true}, state.transposed);
  norm_token_.backward(dense, state.norm_token, d_input.columns(0, d_), d_dense, d_token);
  for (std::size_t r = 0; r < d_pooled.rows; ++r) std::fill_n(d_pooled.row(r), d_pooled.cols, T{});
  norm_pooled_.backward(dense, state.norm_pooled, d_input.columns(d_, d_), d_dense, d_pooled);
  return d_actions;
}

template class Head<float>;
template class Head<double>;

}  // namespace sirenfeed::model
