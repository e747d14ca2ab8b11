#include "model/sequence_attention.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "base/check.h"
#include "model/angle_terms.h"
#include "model/attention.h"
#include "model/chunk_index.h"
#include "model/linear.h"
#include "model/logit_bias.h"
#include "model/rotation.h"

namespace sirenfeed::model {
namespace {

using base::ErrorCode;
using base::fail;

/// The kind as a tag's key: 0 would mean none.
Key key_of(std::int32_t kind) { return static_cast<Key>(kind) + 1; }

ModelConfig model_config(const SequenceAttentionConfig& config) {
  ModelConfig model;
  model.variant = config.rotation;
  model.d_model = config.width;
  model.heads = config.heads;
  model.history_max = config.tokens_max;
  model.angle_width = config.angle_width;
  model.angle_hidden_layers = config.angle_hidden_layers;
  model.semantic_width = config.semantic_width;
  model.omega0 = config.omega0;
  model.base = config.base;
  model.attention_scale = config.attention_scale;
  if (config.attention_scale == 0) model.attention_scale = 1.0 / std::sqrt(model.head_width());
  model.time_reference_ms = config.time_reference_ms;
  model.time_span_ms = config.time_span_ms;
  model.zone_offset_ms = config.zone_offset_ms;
  model.seed = config.seed;
  return model;
}

}  // namespace

base::Result<void> SequenceAttentionConfig::validate() const {
  if (rotation == Variant::kTimeEmbedding) {
    return fail(ErrorCode::kInvalidArgument,
                "rotation: {} adds to the tokens and does not change the attention",
                variant_name(rotation));
  }
  if (rotation == Variant::kSirenDiscovery) {
    return fail(ErrorCode::kInvalidArgument,
                "rotation: {} reads authors and surfaces, which these tokens have not",
                variant_name(rotation));
  }
  if (kinds < 1 || kinds > 1'000'000) {
    return fail(ErrorCode::kInvalidArgument, "kinds is {}, expected 1 to 1000000", kinds);
  }
  if (heads < 1 || width < 2 * heads) {
    return fail(ErrorCode::kInvalidArgument, "width {} must be heads {} times an even width", width,
                heads);
  }
  return model_config(*this).validate();
}

template <class T>
struct BasicSequenceAttention<T>::Impl {
  SequenceAttentionConfig config;
  BasicModel<T> model;  // configuration, layout and the flat buffer; its tables stay empty
  std::vector<T> gradient;
  std::vector<std::unique_ptr<const AngleTerm<T>>> angle_terms;
  std::unique_ptr<const LogitBias<T>> logit_bias;
  Linear<T> query;
  Linear<T> key;
  Linear<T> value;
  Linear<T> output;
  Attention<T> attention;

  // The last forward() and the memory of both directions.
  std::vector<Slate> slates;
  std::vector<const Slate*> chunk;
  ChunkIndex index;
  AttentionPlan plan;
  ChunkRows<T> rows;
  AngleState<T> angles;
  Matrix<T> theta;
  Turns<T> turns;
  AttentionScratch<T> attention_scratch;
  AlignedVector<T> weights;
  std::vector<T> bias;
  std::vector<T> d_bias;
  View<const T> x;
  View<const T> values;
  Matrix<T> q, k, v, heads;
  Matrix<T> d_heads, d_q, d_k, d_v, d_turns, d_theta, scratch;

  explicit Impl(const SequenceAttentionConfig& from)
      : config(from),
        attention(static_cast<std::size_t>(from.heads), static_cast<std::size_t>(from.width),
                  model_config(from).attention_scale) {
    model.config = model_config(from);
    model.layout = make_attention_layout(model.config, static_cast<std::size_t>(from.kinds));
    std::vector<float> start(model.layout.size);
    start_tensors(model.layout, from.seed, start);
    model.dense.assign(start.begin(), start.end());
    gradient.assign(model.layout.size, T{});
    angle_terms = make_angle_terms<T>(model.config, model.layout, "rotary");
    logit_bias = make_logit_bias<T>(model.config, model.layout);
    query = Linear<T>(model.layout, "attention.query");
    key = Linear<T>(model.layout, "attention.key");
    value = Linear<T>(model.layout, "attention.value");
    output = Linear<T>(model.layout, "attention.output");
  }

  base::Result<void> check(std::span<const SequenceToken> tokens,
                           std::span<const std::size_t> lengths) const;
  void build_index(std::span<const SequenceToken> tokens, std::span<const std::size_t> lengths);
  void gather_kinds();
  void scatter_kinds();
  void turn();
  [[nodiscard]] typename Attention<T>::Inputs inputs() const {
    return {q.view(), k.view(), v.view(), model.dense.data() + empty_offset(),
            logit_bias == nullptr ? nullptr : bias.data()};
  }
  [[nodiscard]] std::size_t empty_offset() const { return model.layout.offset("attention.empty"); }
};

template <class T>
base::Result<void> BasicSequenceAttention<T>::Impl::check(
    std::span<const SequenceToken> tokens, std::span<const std::size_t> lengths) const {
  std::size_t total = 0;
  for (std::size_t s = 0; s < lengths.size(); ++s) {
    if (lengths[s] > static_cast<std::size_t>(config.tokens_max)) {
      return fail(ErrorCode::kTooLarge, "sequence {} has {} tokens, tokens_max is {}", s,
                  lengths[s], config.tokens_max);
    }
    total += lengths[s];
  }
  if (total != tokens.size()) {
    return fail(ErrorCode::kInvalidArgument, "lengths add up to {}, there are {} tokens", total,
                tokens.size());
  }
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i].kind >= -1 && tokens[i].kind < config.kinds) continue;
    return fail(ErrorCode::kInvalidArgument, "token {} has kind {}, expected -1 to {}", i,
                tokens[i].kind, config.kinds - 1);
  }
  return {};
}

template <class T>
void BasicSequenceAttention<T>::Impl::build_index(std::span<const SequenceToken> tokens,
                                                  std::span<const std::size_t> lengths) {
  if (slates.size() < lengths.size()) slates.resize(lengths.size());
  chunk.clear();
  std::size_t at = 0;
  for (std::size_t s = 0; s < lengths.size(); ++s) {
    Slate& slate = slates[s];
    slate.history.clear();
    slate.tags.clear();
    for (const SequenceToken& token : tokens.subspan(at, lengths[s])) {
      HistoryToken& to = slate.history.emplace_back();
      to.time_ms = token.time_ms;
      to.item.tags_begin = static_cast<std::uint32_t>(slate.tags.size());
      if (token.kind >= 0) slate.tags.push_back(key_of(token.kind));
      to.item.tags_end = static_cast<std::uint32_t>(slate.tags.size());
    }
    chunk.push_back(&slate);
    at += lengths[s];
  }
  index.build(model.config, chunk);
  plan_block<T>(index, static_cast<std::size_t>(config.heads), plan);
}

// The kinds' learned vectors are dense parameters; the semantic term reads them as a chunk's rows.
template <class T>
void BasicSequenceAttention<T>::Impl::gather_kinds() {
  const TensorSpec* spec = model.layout.find("rotary.semantic.kind.weight");
  if (spec == nullptr) return;
  const std::size_t width = spec->shape[1];
  Matrix<T>& to = rows.value(TableId::kSemanticTag);
  to.resize_zero(index.tags.size(), width);
  rows.gradient(TableId::kSemanticTag).resize_zero(index.tags.size(), width);
  for (std::size_t i = 0; i < index.tags.size(); ++i) {
    const Key kind_key = index.tags.keys()[i];
    if (kind_key == kNoKey) continue;
    std::copy_n(model.dense.data() + spec->offset + (kind_key - 1) * width, width, to.row(i));
  }
}

template <class T>
void BasicSequenceAttention<T>::Impl::scatter_kinds() {
  const TensorSpec* spec = model.layout.find("rotary.semantic.kind.weight");
  if (spec == nullptr) return;
  const std::size_t width = spec->shape[1];
  const Matrix<T>& from = rows.gradient(TableId::kSemanticTag);
  for (std::size_t i = 0; i < index.tags.size(); ++i) {
    const Key kind_key = index.tags.keys()[i];
    if (kind_key == kNoKey) continue;
    T* to = gradient.data() + spec->offset + (kind_key - 1) * width;
    for (std::size_t c = 0; c < width; ++c) to[c] += from.row(i)[c];
  }
}

template <class T>
void BasicSequenceAttention<T>::Impl::turn() {
  if (angle_terms.empty()) return;
  const auto planes = static_cast<std::size_t>(model.config.planes());
  theta.resize_zero(index.rows(), planes);
  const AngleContext<T> context{model, index, rows, angles};
  for (const auto& term : angle_terms) term->add(context, theta.view());
  make_turns(theta, turns);
  rotate(q.view(), turns, 0);
  rotate(k.view(), turns, 0);
}

template <class T>
base::Result<BasicSequenceAttention<T>> BasicSequenceAttention<T>::create(
    const SequenceAttentionConfig& config) {
  SF_TRY(config.validate());
  return BasicSequenceAttention(std::make_unique<Impl>(config));
}

template <class T>
BasicSequenceAttention<T>::BasicSequenceAttention(std::unique_ptr<Impl> impl)
    : impl_(std::move(impl)) {}
template <class T>
BasicSequenceAttention<T>::~BasicSequenceAttention() = default;
template <class T>
BasicSequenceAttention<T>::BasicSequenceAttention(BasicSequenceAttention&&) noexcept = default;
template <class T>
BasicSequenceAttention<T>& BasicSequenceAttention<T>::operator=(BasicSequenceAttention&&) noexcept =
    default;

template <class T>
std::span<T> BasicSequenceAttention<T>::parameters() {
  return impl_->model.dense;
}
template <class T>
std::span<T> BasicSequenceAttention<T>::gradient() {
  return impl_->gradient;
}
template <class T>
const ParameterLayout& BasicSequenceAttention<T>::layout() const {
  return impl_->model.layout;
}

template <class T>
base::Result<void> BasicSequenceAttention<T>::forward(std::span<const SequenceToken> tokens,
                                                      std::span<const std::size_t> lengths,
                                                      View<const T> x, View<const T> values,
                                                      View<T> y) {
  Impl& impl = *impl_;
  SF_TRY(impl.check(tokens, lengths));
  const auto width = static_cast<std::size_t>(impl.config.width);
  for (const View<const T>& view : {x, values, View<const T>(y)}) {
    if (view.rows == tokens.size() && view.cols == width) continue;
    return fail(ErrorCode::kInvalidArgument, "x, values and y must be [{}, {}], one is [{}, {}]",
                tokens.size(), width, view.rows, view.cols);
  }
  impl.x = x;
  impl.values = values;
  impl.build_index(tokens, lengths);
  impl.gather_kinds();
  const T* dense = impl.model.dense.data();
  for (Matrix<T>* matrix : {&impl.q, &impl.k, &impl.v, &impl.heads}) {
    matrix->resize(tokens.size(), width);
  }
  impl.query.forward(dense, x, impl.q.view());
  impl.key.forward(dense, x, impl.k.view());
  impl.value.forward(dense, values, impl.v.view());
  impl.turn();
  if (impl.logit_bias != nullptr) {
    impl.bias.assign(impl.plan.weights_size, T{});
    impl.logit_bias->fill(impl.model, impl.index, impl.plan, impl.bias.data());
  }
  impl.attention.forward(impl.inputs(), impl.plan, impl.attention_scratch, impl.weights,
                         impl.heads.view());
  impl.output.forward(dense, impl.heads.view(), y);
  return {};
}

template <class T>
void BasicSequenceAttention<T>::backward(View<const T> d_y, View<T> d_x, View<T> d_values) {
  Impl& impl = *impl_;
  SF_CHECK(d_y.rows == impl.heads.rows() && d_y.cols == impl.heads.cols());
  std::fill(impl.gradient.begin(), impl.gradient.end(), T{});
  T* d_dense = impl.gradient.data();
  const T* dense = impl.model.dense.data();
  const std::size_t n = d_y.rows;
  for (Matrix<T>* matrix : {&impl.d_heads, &impl.d_q, &impl.d_k, &impl.d_v}) {
    matrix->resize(n, d_y.cols);
  }
  impl.d_turns.resize_zero(n, 2 * static_cast<std::size_t>(impl.model.config.planes()));
  impl.output.backward(dense, impl.heads.view(), d_y, d_dense, impl.d_heads.view(), {},
                       impl.scratch);
  if (impl.logit_bias != nullptr) impl.d_bias.assign(impl.plan.weights_size, T{});
  impl.attention.backward(
      impl.inputs(), impl.plan, impl.weights, impl.d_heads.view(), nullptr, impl.attention_scratch,
      {impl.d_q.view(), impl.d_k.view(), impl.d_v.view(), d_dense + impl.empty_offset(),
       impl.logit_bias == nullptr ? nullptr : impl.d_bias.data()});
  if (!impl.angle_terms.empty()) {
    rotate_backward<T>(impl.d_q.view(), impl.q.view(), impl.turns, 0, impl.d_turns.view());
    rotate_backward<T>(impl.d_k.view(), impl.k.view(), impl.turns, 0, impl.d_turns.view());
    fold_turns(impl.d_turns, impl.d_theta);
    const AngleContext<T> context{impl.model, impl.index, impl.rows, impl.angles};
    for (const auto& term : impl.angle_terms) {
      term->backward(context, impl.d_theta.view(), d_dense);
    }
    impl.scatter_kinds();
  }
  if (impl.logit_bias != nullptr) {
    impl.logit_bias->backward(impl.model, impl.index, impl.plan, impl.d_bias.data(), d_dense);
  }
  impl.query.backward(dense, impl.x, impl.d_q.view(), d_dense, d_x, {}, impl.scratch);
  impl.key.backward(dense, impl.x, impl.d_k.view(), d_dense, d_x, {.add = true}, impl.scratch);
  impl.value.backward(dense, impl.values, impl.d_v.view(), d_dense, d_values, {}, impl.scratch);
}

template class BasicSequenceAttention<float>;
template class BasicSequenceAttention<double>;

}  // namespace sirenfeed::model
