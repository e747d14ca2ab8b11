#include "model/token_embedding.h"

#include <algorithm>
#include <bit>

#include "model/time_features.h"

namespace sirenfeed::model {
namespace {

template <class T>
void add_row(const T* from, T* to, std::size_t width) {
  for (std::size_t c = 0; c < width; ++c) to[c] += from[c];
}

template <class T>
void add_scaled_row(const T* from, T scale, T* to, std::size_t width) {
  for (std::size_t c = 0; c < width; ++c) to[c] += scale * from[c];
}

template <class T>
void copy_rows(const BasicEmbeddingTable<T>& table, const KeyIndex& keys, Matrix<T>& out) {
  out.resize(keys.size(), table.width());
  if (table.width() > 0) table.copy_rows(keys.keys(), out.data());
}

/// Calls function(action) for every set bit.
template <class Function>
void for_each_action(std::uint32_t bits, Function function) {
  for (; bits != 0; bits &= bits - 1) function(static_cast<std::size_t>(std::countr_zero(bits)));
}

}  // namespace

template <class T>
TokenEmbedding<T>::TokenEmbedding(const ModelConfig& config, const ParameterLayout& layout)
    : width_(static_cast<std::size_t>(config.d_model)),
      n_actions_(config.n_actions()),
      actions_(layout.offset("embedding.action.weight")),
      norm_(layout, "token_norm") {
  if (variant_parts(config).time_embedding) time_.emplace(layout, "time_embedding");
}

template <class T>
void TokenEmbedding<T>::forward(const BasicModel<T>& model, const ChunkIndex& index,
                                ChunkRows<T>& rows, State& state, Matrix<T>& x,
                                Matrix<T>& a) const {
  copy_rows(model.table(TableId::kItem), index.items, rows.value(TableId::kItem));
  copy_rows(model.table(TableId::kTag), index.tags, rows.value(TableId::kTag));
  copy_rows(model.table(TableId::kAuthor), index.authors, rows.value(TableId::kAuthor));
  copy_rows(model.table(TableId::kSemanticTag), index.tags, rows.value(TableId::kSemanticTag));
  copy_rows(model.table(TableId::kSemanticSegment), index.segments,
            rows.value(TableId::kSemanticSegment));
  copy_rows(model.table(TableId::kSemanticAuthor), index.authors,
            rows.value(TableId::kSemanticAuthor));
  copy_rows(model.table(TableId::kSemanticSurface), index.surfaces,
            rows.value(TableId::kSemanticSurface));

  state.content.resize(index.rows(), width_);
  for (std::size_t r = 0; r < index.rows(); ++r) {
    const Token& token = index.tokens[r];
    T* content = state.content.row(r);
    std::fill_n(content, width_, T{});
    for (const std::uint32_t number : index.tags_of(token)) {
      add_row(rows.value(TableId::kTag).row(number), content, width_);
    }
    const T share = T{1} / static_cast<T>(token.tags_end - token.tags_begin);
    for (std::size_t c = 0; c < width_; ++c) content[c] *= share;
    add_row(rows.value(TableId::kAuthor).row(token.author), content, width_);
    if (token.item != kNoRow) {
      add_row(rows.value(TableId::kItem).row(token.item), content, width_);
    }
  }
  const T* dense = model.dense.data();
  x.resize(index.rows(), width_);
  norm_.forward(dense, state.content.view(), state.norm, x.view());
  if (time_) {
    state.time_features.resize_zero(index.rows(), kTimeFeatureCount);
    for (std::size_t r = 0; r < index.rows(); ++r) {
      const auto time_ms = static_cast<std::int64_t>(index.times.keys()[index.tokens[r].time]);
      if (time_ms == kUnknownTime) continue;
      const auto t = time_features(model.config, time_ms);
      for (std::size_t i = 0; i < kTimeFeatureCount; ++i) {
        state.time_features.row(r)[i] = static_cast<T>(static_cast<float>(t[i]));
      }
    }
    state.content.resize(index.rows(), width_);
    time_->forward(dense, state.time_features.view(), state.content.view());
    add_row(state.content.data(), x.data(), x.size());
  }

  a.resize_zero(index.history_rows, width_);
  for (std::size_t r = 0; r < index.history_rows; ++r) {
    for_each_action(index.tokens[r].action_bits, [&](std::size_t action) {
      add_row(dense + actions_ + action * width_, a.row(r), width_);
    });
  }
}

template <class T>
void TokenEmbedding<T>::backward(const BasicModel<T>& model, const ChunkIndex& index, State& state,
                                 const Matrix<T>& d_x, const Matrix<T>& d_a, ChunkRows<T>& rows,
                                 T* d_dense) const {
  const T* dense = model.dense.data();
  for (std::size_t r = 0; r < index.history_rows; ++r) {
    for_each_action(index.tokens[r].action_bits, [&](std::size_t action) {
      add_row(d_a.row(r), d_dense + actions_ + action * width_, width_);
    });
  }
  if (time_) {
    time_->backward(dense, state.time_features.view(), d_x.view(), d_dense, View<T>{}, {},
                    state.scratch);
  }
  state.d_content.resize_zero(index.rows(), width_);
  norm_.backward(dense, state.norm, d_x.view(), d_dense, state.d_content.view());
  for (std::size_t r = 0; r < index.rows(); ++r) {
    const Token& token = index.tokens[r];
    const T* d_content = state.d_content.row(r);
    const T share = T{1} / static_cast<T>(token.tags_end - token.tags_begin);
    for (const std::uint32_t number : index.tags_of(token)) {
      add_scaled_row(d_content, share, rows.gradient(TableId::kTag).row(number), width_);
    }
    add_row(d_content, rows.gradient(TableId::kAuthor).row(token.author), width_);
    if (token.item != kNoRow) {
      add_row(d_content, rows.gradient(TableId::kItem).row(token.item), width_);
    }
  }
}

template <class T>
void clear_row_gradients(ChunkRows<T>& rows) {
  for (std::size_t t = 0; t < kTableCount; ++t) {
    rows.gradients[t].resize_zero(rows.values[t].rows(), rows.values[t].cols());
  }
}

template class TokenEmbedding<float>;
template class TokenEmbedding<double>;
template void clear_row_gradients(ChunkRows<float>&);
template void clear_row_gradients(ChunkRows<double>&);

}  // namespace sirenfeed::model
