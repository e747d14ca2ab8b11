#include "model/attention.h"

#include <algorithm>

#include "model/gemm.h"
#include "model/kernels.h"

namespace sirenfeed::model {
namespace {

// Rows of one causal product: short enough that the masked triangle costs little.
constexpr std::size_t kBlockRows = 16;

AttentionSlate& next_slate(AttentionPlan& plan, const SlateRange& range, std::size_t key_padded) {
  if (plan.slates.size() == plan.slate_count) plan.slates.emplace_back();
  AttentionSlate& slate = plan.slates[plan.slate_count++];
  slate.key_begin = range.history_begin;
  slate.key_count = range.history_count;
  slate.key_padded = key_padded;
  slate.ranges.clear();
  return slate;
}

}  // namespace

template <class T>
void plan_block(const ChunkIndex& index, std::size_t heads, AttentionPlan& plan) {
  plan.slate_count = 0;
  plan.weights_size = 0;
  for (const SlateRange& range : index.slates) {
    const std::size_t keys = padded<T>(range.history_count);
    AttentionSlate& slate = next_slate(plan, range, keys);
    std::size_t offset = plan.weights_size;
    slate.ranges.push_back({.begin = range.history_begin,
                            .count = range.history_count,
                            .first_visible = 0,
                            .weights = offset,
                            .bias = offset,
                            .bias_rows = range.history_count});
    offset += heads * range.history_count * keys;
    slate.ranges.push_back({.begin = range.candidate_begin,
                            .count = range.candidate_count,
                            .first_visible = range.history_count,
                            .weights = offset,
                            .bias = offset,
                            .bias_rows = range.candidate_count});
    plan.weights_size = offset + heads * range.candidate_count * keys;
  }
}

template <class T>
void plan_pooling(const ChunkIndex& index, std::size_t heads, AttentionPlan& plan) {
  plan.slate_count = 0;
  plan.weights_size = 0;
  std::size_t bias = 0;
  for (const SlateRange& range : index.slates) {
    const std::size_t keys = padded<T>(range.history_count);
    bias += heads * range.history_count * keys;
    AttentionSlate& slate = next_slate(plan, range, keys);
    slate.ranges.push_back({.begin = range.candidate_begin - index.history_rows,
                            .count = range.candidate_count,
                            .first_visible = range.history_count,
                            .weights = plan.weights_size,
                            .bias = bias,
                            .bias_rows = range.candidate_count});
    plan.weights_size += heads * range.candidate_count * keys;
    bias += heads * range.candidate_count * keys;
  }
}

void plan_tile(const AttentionPlan& block, std::size_t first_row, std::size_t rows,
               AttentionPlan& tile) {
  tile.slate_count = 0;
  tile.weights_size = 0;
  for (const AttentionSlate& slate : block.used()) {
    AttentionSlate* to = nullptr;
    for (const QueryRange& range : slate.ranges) {
      const std::size_t begin = std::max(range.begin, first_row);
      const std::size_t end = std::min(range.begin + range.count, first_row + rows);
      if (begin >= end) continue;
      if (to == nullptr) {
        to = &next_slate(tile, {slate.key_begin, slate.key_count, 0, 0}, slate.key_padded);
      }
      const std::size_t skipped = begin - range.begin;
      to->ranges.push_back({.begin = begin - first_row,
                            .count = end - begin,
                            .first_visible = range.first_visible + skipped,
                            .bias = range.bias,
                            .bias_rows = range.bias_rows,
                            .bias_first = skipped});
    }
  }
}

/// Consecutive query rows of one range and head, with the keys that the last of them sees.
template <class T>
struct Attention<T>::Part {
  const AttentionSlate* slate = nullptr;
  const QueryRange* range = nullptr;
  std::size_t head = 0;
  std::size_t first = 0;  // row within the range
  std::size_t rows = 0;
  std::size_t keys = 0;

  [[nodiscard]] std::size_t visible(std::size_t row) const {
    return std::min(range->first_visible + first + row, slate->key_count);
  }
  [[nodiscard]] std::size_t offset() const {
    return (head * range->count + first) * slate->key_padded;
  }
  [[nodiscard]] std::size_t bias_offset() const {
    const std::size_t row = head * range->bias_rows + range->bias_first + first;
    return range->bias + row * slate->key_padded;
  }
  [[nodiscard]] std::size_t query_row() const { return range->begin + first; }

  template <class Function>
  static void for_each(const AttentionSlate& slate, std::size_t head, Function function) {
    for (const QueryRange& range : slate.ranges) {
      const bool causal = range.first_visible < slate.key_count;
      const std::size_t step = causal ? kBlockRows : std::max<std::size_t>(range.count, 1);
      for (std::size_t first = 0; first < range.count; first += step) {
        Part part{&slate, &range, head, first, std::min(step, range.count - first), 0};
        part.keys = part.visible(part.rows - 1);
        function(part);
      }
    }
  }
};

template <class T>
void Attention<T>::forward(const Inputs& in, const AttentionPlan& plan,
                           AttentionScratch<T>& scratch, AlignedVector<T>& weights,
                           View<T> out) const {
  if (weights.size() < plan.weights_size) weights.resize(plan.weights_size);
  for (const AttentionSlate& slate : plan.used()) {
    for (std::size_t head = 0; head < heads_; ++head) {
      const View<const T> k =
          in.k.slice(slate.key_begin, slate.key_count).columns(head * head_width_, head_width_);
      scratch.keys_transposed.resize(head_width_, slate.key_padded);
      transpose(k, scratch.keys_transposed.view());
      Part::for_each(slate, head, [&](const Part& part) {
        forward_part(in, part, scratch, weights.data() + part.range->weights + part.offset(), out);
      });
    }
  }
}

template <class T>
void Attention<T>::infer(const Inputs& in, const AttentionPlan& plan, const Bits* bits,
                         AttentionScratch<T>& scratch, View<T> out) const {
  for (const AttentionSlate& slate : plan.used()) {
    for (std::size_t head = 0; head < heads_; ++head) {
      const std::size_t column = head * head_width_;
      const View<const T> k =
          in.k.slice(slate.key_begin, slate.key_count).columns(column, head_width_);
      scratch.keys_transposed.resize(head_width_, slate.key_padded);
      transpose(k, scratch.keys_transposed.view());
      if (bits != nullptr) {
        scratch.values.resize(slate.key_count, head_width_ + bits->bits.cols);
        for (std::size_t j = 0; j < slate.key_count; ++j) {
          const T* const value = in.v.row(slate.key_begin + j) + column;
          std::copy_n(value, head_width_, scratch.values.row(j));
          std::copy_n(bits->bits.row(slate.key_begin + j), bits->bits.cols,
                      scratch.values.row(j) + head_width_);
        }
      }
      Part::for_each(slate, head, [&](const Part& part) {
        scratch.weights.resize(part.rows, slate.key_padded);
        if (bits == nullptr) {
          forward_part(in, part, scratch, scratch.weights.data(), out);
          return;
        }
        weigh_part(in, part, scratch, scratch.weights.data());
        average_bits(part, *bits, scratch, out);
        stand_in_empty(in, part, out);
      });
    }
  }
}

/// Values and bits lie side by side, so that one product averages both.
template <class T>
void Attention<T>::average_bits(const Part& part, const Bits& bits, AttentionScratch<T>& scratch,
                                View<T> out) const {
  scratch.averages.resize(part.rows, scratch.values.cols());
  const View<const T> weights{scratch.weights.data(), part.rows, part.keys, part.slate->key_padded};
  gemm(left(weights), View<const T>(scratch.values.view()).slice(0, part.keys),
       scratch.averages.view(), GemmStart::kZero);
  for (std::size_t r = 0; r < part.rows; ++r) {
    const T* const from = scratch.averages.row(r);
    std::copy_n(from, head_width_, out.row(part.query_row() + r) + part.head * head_width_);
    std::copy_n(from + head_width_, bits.n_bits,
                bits.out.row(part.query_row() + r) + part.head * bits.n_bits);
  }
}

template <class T>
void Attention<T>::weigh_part(const Inputs& in, const Part& part, AttentionScratch<T>& scratch,
                              T* weights) const {
  const std::size_t column = part.head * head_width_;
  const std::size_t stride = part.slate->key_padded;
  const std::size_t keys = padded<T>(part.keys);
  const View<T> logits{weights, part.rows, keys, stride};
  const View<const T> q = in.q.slice(part.query_row(), part.rows).columns(column, head_width_);
  gemm(left(q), scratch.keys_transposed.view().columns(0, keys), logits, GemmStart::kZero);
  kernels<T>().softmax({weights, stride, part.rows, part.range->first_visible + part.first,
                        part.slate->key_count, keys, scale_,
                        in.bias == nullptr ? nullptr : in.bias + part.bias_offset()});
}

template <class T>
void Attention<T>::forward_part(const Inputs& in, const Part& part, AttentionScratch<T>& scratch,
                                T* weights, View<T> out) const {
  weigh_part(in, part, scratch, weights);
  const std::size_t column = part.head * head_width_;
  const View<const T> w{weights, part.rows, part.keys, part.slate->key_padded};
  const View<const T> v = in.v.slice(part.slate->key_begin, part.keys).columns(column, head_width_);
  gemm(left(w), v, out.slice(part.query_row(), part.rows).columns(column, head_width_),
       GemmStart::kZero);
  stand_in_empty(in, part, out);
}

/// The learned vector for rows that see no key: the first ones of their range, if any.
template <class T>
void Attention<T>::stand_in_empty(const Inputs& in, const Part& part, View<T> out) const {
  const std::size_t column = part.head * head_width_;
  for (std::size_t r = 0; r < part.rows && part.visible(r) == 0; ++r) {
    std::copy_n(in.empty + column, head_width_, out.row(part.query_row() + r) + column);
  }
}

template <class T>
void Attention<T>::backward(const Inputs& in, const AttentionPlan& plan,
                            const AlignedVector<T>& weights, View<const T> d_out,
                            const T* d_weights_extra, AttentionScratch<T>& scratch,
                            const Gradients& gradients) const {
  for (std::size_t r = 0; r < gradients.d_k.rows; ++r) {
    std::fill_n(gradients.d_k.row(r), gradients.d_k.cols, T{});
    std::fill_n(gradients.d_v.row(r), gradients.d_v.cols, T{});
  }
  for (const AttentionSlate& slate : plan.used()) {
    for (std::size_t head = 0; head < heads_; ++head) {
      const View<const T> v =
          in.v.slice(slate.key_begin, slate.key_count).columns(head * head_width_, head_width_);
      scratch.values_transposed.resize(head_width_, slate.key_padded);
      transpose(v, scratch.values_transposed.view());
      Part::for_each(slate, head, [&](const Part& part) {
        const std::size_t offset = part.range->weights + part.offset();
        backward_part(in, part, weights.data() + offset, d_out,
                      d_weights_extra == nullptr ? nullptr : d_weights_extra + offset, scratch,
                      gradients);
      });
    }
  }
}

template <class T>
void Attention<T>::backward_part(const Inputs& in, const Part& part, const T* weights,
                                 View<const T> d_out, const T* d_weights_extra,
                                 AttentionScratch<T>& scratch, const Gradients& gradients) const {
  const std::size_t column = part.head * head_width_;
  const std::size_t stride = part.slate->key_padded;
  const std::size_t keys = padded<T>(part.keys);
  const View<const T> d_o = d_out.slice(part.query_row(), part.rows).columns(column, head_width_);
  const View<T> d_q = gradients.d_q.slice(part.query_row(), part.rows).columns(column, head_width_);
  for (std::size_t r = 0; r < part.rows && part.visible(r) == 0; ++r) {
    for (std::size_t c = 0; c < head_width_; ++c) gradients.d_empty[column + c] += d_o.row(r)[c];
  }
  scratch.d_weights.resize(part.rows, keys);
  gemm(left(d_o), scratch.values_transposed.view().columns(0, keys), scratch.d_weights.view(),
       GemmStart::kZero);
  // Softmax: d_logit = w (d_w − Σ w d_w). Rows and keys out of sight have w = 0.
  T* d_bias = gradients.d_bias == nullptr ? nullptr : gradients.d_bias + part.bias_offset();
  for (std::size_t r = 0; r < part.rows; ++r) {
    T* row = scratch.d_weights.row(r);
    const T* weight = weights + r * stride;
    if (d_weights_extra != nullptr) {
      for (std::size_t j = 0; j < keys; ++j) row[j] += d_weights_extra[r * stride + j];
    }
    kernels<T>().softmax_backward(weight, row, keys, scale_,
                                  d_bias == nullptr ? nullptr : d_bias + r * stride);
  }
  const View<const T> d_logits = scratch.d_weights.view().columns(0, part.keys);
  const View<const T> w{weights, part.rows, part.keys, stride};
  const auto history = [&](View<T> all) {
    return all.slice(part.slate->key_begin, part.keys).columns(column, head_width_);
  };
  const View<const T> q = in.q.slice(part.query_row(), part.rows).columns(column, head_width_);
  const View<const T> k = in.k.slice(part.slate->key_begin, part.keys).columns(column, head_width_);
  gemm(left(d_logits), k, d_q, GemmStart::kZero);
  gemm(left_transposed(d_logits), q, history(gradients.d_k), GemmStart::kAdd);
  gemm(left_transposed(w), d_o, history(gradients.d_v), GemmStart::kAdd);
}

template void plan_block<float>(const ChunkIndex&, std::size_t, AttentionPlan&);
template void plan_pooling<float>(const ChunkIndex&, std::size_t, AttentionPlan&);
template class Attention<float>;
template void plan_block<double>(const ChunkIndex&, std::size_t, AttentionPlan&);
template void plan_pooling<double>(const ChunkIndex&, std::size_t, AttentionPlan&);
template class Attention<double>;

}  // namespace sirenfeed::model
