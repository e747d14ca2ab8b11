#pragma once
// Softmax attention of stacked query rows over the history of their own slate. Shared by the
// blocks and the pooling.
#include <cstddef>
#include <span>
#include <vector>

#include "model/chunk_index.h"
#include "model/matrix.h"

namespace sirenfeed::model {

/// Consecutive query rows. Row i of the range attends to the first min(first_visible + i, keys)
/// history tokens: first_visible 0 is the causal, strict rule of the history itself.
struct QueryRange {
  std::size_t begin = 0;  // row of q
  std::size_t count = 0;
  std::size_t first_visible = 0;
  std::size_t weights = 0;    // offset of its softmax weights: [heads, count, padded keys]
  std::size_t bias = 0;       // offset of its logit bias: [heads, bias_rows, padded keys]
  std::size_t bias_rows = 0;  // the rows of which these are `count`, from row bias_first on
  std::size_t bias_first = 0;
};

struct AttentionSlate {
  std::size_t key_begin = 0;  // row of k and v
  std::size_t key_count = 0;
  std::size_t key_padded = 0;
  std::vector<QueryRange> ranges;
};

struct AttentionPlan {
  std::vector<AttentionSlate> slates;
  std::size_t slate_count = 0;  // entries of `slates` in use; the others keep their memory
  std::size_t weights_size = 0;

  [[nodiscard]] std::span<const AttentionSlate> used() const {
    return std::span(slates).first(slate_count);
  }
};

/// Histories and candidates as queries (rows as stacked tokens).
template <class T>
void plan_block(const ChunkIndex& index, std::size_t heads, AttentionPlan& plan);
/// Candidates alone as queries; row 0 is the first candidate. Its bias offsets are those of
/// plan_block's candidates.
template <class T>
void plan_pooling(const ChunkIndex& index, std::size_t heads, AttentionPlan& plan);

/// The part of `block`, plan_block's plan, whose query rows are the stacked tokens first_row …
/// first_row + rows − 1; row 0 is the first of them. Without offsets of weights.
void plan_tile(const AttentionPlan& block, std::size_t first_row, std::size_t rows,
               AttentionPlan& tile);

/// Rows of one tile of inference: few enough that what a layer makes of them stays in the cache.
inline constexpr std::size_t kTileRows = 84;

template <class T>
struct AttentionScratch {
  Matrix<T> keys_transposed;    // [d_k, padded keys]
  Matrix<T> values_transposed;  // [d_k, padded keys]
  Matrix<T> weights;            // [rows of a block, padded keys], infer() only
  Matrix<T> values;             // of one head beside the bits, infer() only
  Matrix<T> averages;           // likewise
  Matrix<T> d_weights;          // [rows of a block, padded keys]
};

template <class T>
class Attention {
 public:
  Attention() = default;
  Attention(std::size_t heads, std::size_t width, double scale)
      : heads_(heads), head_width_(width / heads), scale_(static_cast<T>(scale)) {}

  struct Inputs {
    View<const T> q;           // [query rows, d], rotated
    View<const T> k;           // [history rows, d], rotated
    View<const T> v;           // [history rows, d]
    const T* empty = nullptr;  // [d], stands for the output of a row that sees no key
    const T* bias = nullptr;   // added to the logits; may be null
  };
  struct Gradients {
    View<T> d_q;           // overwritten
    View<T> d_k;           // overwritten
    View<T> d_v;           // overwritten
    T* d_empty = nullptr;  // += …
    T* d_bias = nullptr;   // += …; may be null
  };

  /// out [query rows, d]; weights [plan.weights_size].
  void forward(const Inputs& in, const AttentionPlan& plan, AttentionScratch<T>& scratch,
               AlignedVector<T>& weights, View<T> out) const;

  /// What the weights average besides the values.
  struct Bits {
    View<const T> bits;  // [history rows, whole packs], columns past n_bits 0
    std::size_t n_bits = 0;
    View<T> out;  // [query rows, heads · n_bits]
  };
  /// forward() without keeping the weights; with `bits` also their averages.
  void infer(const Inputs& in, const AttentionPlan& plan, const Bits* bits,
             AttentionScratch<T>& scratch, View<T> out) const;

  /// d_weights_extra, like weights, is a further gradient into the softmax weights; may be null.
  void backward(const Inputs& in, const AttentionPlan& plan, const AlignedVector<T>& weights,
                View<const T> d_out, const T* d_weights_extra, AttentionScratch<T>& scratch,
                const Gradients& gradients) const;

 private:
  struct Part;
  void weigh_part(const Inputs& in, const Part& part, AttentionScratch<T>& scratch,
                  T* weights) const;
  void forward_part(const Inputs& in, const Part& part, AttentionScratch<T>& scratch, T* weights,
                    View<T> out) const;
  void average_bits(const Part& part, const Bits& bits, AttentionScratch<T>& scratch,
                    View<T> out) const;
  void stand_in_empty(const Inputs& in, const Part& part, View<T> out) const;
  void backward_part(const Inputs& in, const Part& part, const T* weights, View<const T> d_out,
                     const T* d_weights_extra, AttentionScratch<T>& scratch,
                     const Gradients& gradients) const;

  std::size_t heads_ = 1;
  std::size_t head_width_ = 0;
  T scale_ = T{1};
};

extern template class Attention<float>;
extern template class Attention<double>;

}  // namespace sirenfeed::model
