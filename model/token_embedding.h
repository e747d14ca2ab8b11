#pragma once
// From ids to x and a: table rows, token norm, action vectors.
#include <optional>

#include "model/angle_terms.h"
#include "model/chunk_index.h"
#include "model/layer_norm.h"
#include "model/linear.h"
#include "model/matrix.h"
#include "model/model.h"

namespace sirenfeed::model {

template <class T>
class TokenEmbedding {
 public:
  struct State {
    Matrix<T> content;        // [rows, d] before the norm
    Matrix<T> time_features;  // [rows, 5], time_embedding only
    Matrix<T> d_content;
    Matrix<T> scratch;
    typename LayerNorm<T>::State norm;
  };

  TokenEmbedding(const ModelConfig& config, const ParameterLayout& layout);

  /// Copies the chunk's distinct rows into `rows`; then x [all rows, d], a [history rows, d].
  void forward(const BasicModel<T>& model, const ChunkIndex& index, ChunkRows<T>& rows,
               State& state, Matrix<T>& x, Matrix<T>& a) const;
  /// rows.gradients of the item, tag and author tables and d_dense += ….
  void backward(const BasicModel<T>& model, const ChunkIndex& index, State& state,
                const Matrix<T>& d_x, const Matrix<T>& d_a, ChunkRows<T>& rows, T* d_dense) const;

 private:
  std::size_t width_;
  std::size_t n_actions_;
  std::size_t actions_;
  LayerNorm<T> norm_;
  std::optional<Linear<T>> time_;
};

/// Zeroes `rows.gradients` to the shapes of the chunk.
template <class T>
void clear_row_gradients(ChunkRows<T>& rows);

extern template class TokenEmbedding<float>;
extern template class TokenEmbedding<double>;
extern template void clear_row_gradients(ChunkRows<float>&);
extern template void clear_row_gradients(ChunkRows<double>&);

}  // namespace sirenfeed::model
