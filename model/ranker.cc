#include "model/ranker.h"

#include <algorithm>

#include "base/check.h"
#include "model/calibration.h"
#include "model/logit_bias.h"
#include "model/workspace.h"

namespace sirenfeed::model {
namespace {

/// The one trunk of all variants: what differs is the list of angle terms and the logit bias, each
/// an object of its own.
template <class T>
class TransformerRanker final : public BasicRanker<T> {
 public:
  explicit TransformerRanker(const ModelConfig& config)
      : layout_(make_layout(config)),
        heads_(static_cast<std::size_t>(config.heads)),
        planes_(static_cast<std::size_t>(config.planes())),
        embedding_(config, layout_),
        logit_bias_(make_logit_bias<T>(config, layout_)),
        pooling_(config, layout_),
        head_(config, layout_),
        towers_(config, layout_) {
    for (const std::string& prefix : angle_prefixes(config)) {
      angle_terms_.push_back(make_angle_terms<T>(config, layout_, prefix));
    }
    for (int i = 0; i < config.layers; ++i) {
      layers_.emplace_back(config, layout_, "layers." + std::to_string(i));
    }
  }

  std::span<const T> forward(const BasicModel<T>& model, std::span<const Slate* const> chunk,
                             BasicWorkspace<T>& workspace) const override {
    auto& ws = workspace.impl();
    const T* dense = model.dense.data();
    prepare(model, chunk, ws);
    ws.layers.resize(layers_.size());
    View<const T> x = ws.x.view();
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      layers_[i].forward(dense, x, ws.a.view(), shared(ws, ws.block_plan, i), ws.layers[i]);
      x = ws.layers[i].out.view();
    }
    pooling_.forward(model, ws.index, x, ws.a.view(), shared(ws, ws.pooling_plan, layers_.size()),
                     ws.pooling);
    head_.forward(model, chunk,
                  {x.slice(ws.index.history_rows, ws.index.candidate_rows()),
                   ws.pooling.pooled.view(), ws.pooling.actions.view()},
                  ws.head);
    return {ws.head.z.data(), ws.head.z.size()};
  }

  TowerLogits<T> tower_logits(const BasicModel<T>& model, std::span<const Slate* const> chunk,
                              BasicWorkspace<T>& workspace) const override {
    auto& ws = workspace.impl();
    return towers_.mean(model, chunk, {ws.head.z.data(), ws.head.z.size()}, ws.towers);
  }

  std::span<const T> infer(const BasicModel<T>& model, std::span<const Slate* const> chunk,
                           BasicWorkspace<T>& workspace) const override {
    auto& ws = workspace.impl();
    prepare(model, chunk, ws);
    const std::size_t history = ws.index.history_rows;
    const std::size_t candidates = ws.index.candidate_rows();
    const T* dense = model.dense.data();
    ws.layers.resize(layers_.size());
    InferTile<T>& tile = ws.tile;
    tile.x = ws.x.view();
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      layers_[i].resize_keys(history, ws.layers[i]);
      for (std::size_t first = 0; first < history; first += kTileRows) {
        set_tile(ws, first, std::min(kTileRows, history - first));
        layers_[i].infer(dense, ws.a.view(), shared(ws, tile.plan, i), tile, ws.layers[i]);
      }
    }
    pooling_.infer_history(model, ws.index, ws.x.view(), ws.a.view(),
                           shared(ws, ws.pooling_plan, layers_.size()), ws.pooling);
    ws.head.z.resize(candidates, model.config.n_tasks());
    for (std::size_t first = 0; first < candidates; first += kTileRows) {
      const std::size_t rows = std::min(kTileRows, candidates - first);
      set_tile(ws, history + first, rows);
      for (std::size_t i = 0; i < layers_.size(); ++i) {
        layers_[i].infer(dense, View<const T>{}, shared(ws, tile.plan, i), tile, ws.layers[i]);
      }
      pooling_.infer(dense, shared(ws, tile.plan, layers_.size()), tile, ws.pooling);
      head_.infer(model, chunk, first,
                  {tile.rows(), ws.pooling.pooled.view(), ws.pooling.actions.view()}, ws.head);
    }
    return {ws.head.z.data(), ws.head.z.size()};
  }

  void add_gradient(const BasicModel<T>& model, BasicWorkspace<T>& workspace,
                    std::span<const T> d_z, BasicChunkGradient<T>& gradient) const override {
    auto& ws = workspace.impl();
    SF_CHECK(d_z.size() == ws.head.z.size());
    const T* dense = model.dense.data();
    SF_CHECK(gradient.dense.size() == layout_.size);
    T* d_dense = gradient.dense.data();
    const std::size_t history = ws.index.history_rows;
    const std::size_t candidates = ws.index.candidate_rows();
    ws.d_x.resize_zero(ws.index.rows(), ws.x.cols());
    ws.d_a.resize_zero(history, ws.x.cols());
    for (AngleSet<T>& set : ws.angle_sets) set.d_turns.resize_zero(ws.index.rows(), 2 * planes_);
    ws.d_pooled.resize(candidates, ws.x.cols());
    if (logit_bias_ != nullptr) ws.d_logit_bias.assign(ws.block_plan.weights_size, T{});
    clear_row_gradients(ws.rows);

    const View<const T> d_z_rows{d_z.data(), candidates, ws.head.z.cols(), ws.head.z.cols()};
    const View<const T> d_actions =
        head_.backward(model, ws.head, d_z_rows, d_dense, ws.d_x.view().slice(history, candidates),
                       ws.d_pooled.view());
    const View<const T> x = layers_.empty() ? ws.x.view() : ws.layers.back().out.view();
    pooling_.backward(model, x, ws.a.view(), ws.pooling,
                      shared(ws, ws.pooling_plan, layers_.size()), ws.d_pooled.view(), d_actions,
                      d_dense, ws.d_x.view(), ws.d_a.view());
    for (std::size_t i = layers_.size(); i-- > 0;) {
      layers_[i].backward(dense, ws.layers[i], shared(ws, ws.block_plan, i), ws.block_scratch,
                          d_dense, ws.d_x.view(), ws.d_a.view());
    }
    for (std::size_t set = 0; set < angle_terms_.size(); ++set) {
      if (!rotates()) break;
      AngleSet<T>& turned = ws.angle_sets[set];
      fold_turns(turned.d_turns, turned.d_theta);
      const AngleContext<T> context{model, ws.index, ws.rows, turned.angles};
      for (const auto& term : angle_terms_[set]) {
        term->backward(context, turned.d_theta.view(), d_dense);
      }
    }
    if (logit_bias_ != nullptr) {
      logit_bias_->backward(model, ws.index, ws.block_plan, ws.d_logit_bias.data(), d_dense);
    }
    embedding_.backward(model, ws.index, ws.embedding, ws.d_x, ws.d_a, ws.rows, d_dense);
    hand_over_rows(ws, gradient);
  }

 private:
  using Impl = typename BasicWorkspace<T>::Impl;

  [[nodiscard]] bool rotates() const { return !angle_terms_.front().empty(); }

  /// The tokens, their turns and the logit bias.
  void prepare(const BasicModel<T>& model, std::span<const Slate* const> chunk, Impl& ws) const {
    SF_CHECK(model.dense.size() == layout_.size);
    ws.index.build(model.config, chunk, ws.position_origin);
    plan_block<T>(ws.index, heads_, ws.block_plan);
    plan_pooling<T>(ws.index, heads_, ws.pooling_plan);
    embedding_.forward(model, ws.index, ws.rows, ws.embedding, ws.x, ws.a);
    turn(model, ws);
    if (logit_bias_ != nullptr) {
      ws.logit_bias.assign(ws.block_plan.weights_size, T{});
      logit_bias_->fill(model, ws.index, ws.block_plan, ws.logit_bias.data());
    }
  }

  static void set_tile(Impl& ws, std::size_t first, std::size_t count) {
    plan_tile(ws.block_plan, first, count, ws.tile.plan);
    ws.tile.first = first;
    ws.tile.count = count;
  }

  void turn(const BasicModel<T>& model, Impl& ws) const {
    ws.angle_sets.resize(angle_terms_.size());
    if (!rotates()) return;
    for (std::size_t s = 0; s < angle_terms_.size(); ++s) {
      AngleSet<T>& set = ws.angle_sets[s];
      set.theta.resize_zero(ws.index.rows(), planes_);
      const AngleContext<T> context{model, ws.index, ws.rows, set.angles};
      for (const auto& term : angle_terms_[s]) term->add(context, set.theta.view());
      make_turns(set.theta, set.turns);
    }
  }

  /// Of layer `layer`; the pooling is the one after the last.
  AttentionShared<T> shared(Impl& ws, const AttentionPlan& plan, std::size_t layer) const {
    AngleSet<T>& set = ws.angle_sets[std::min(layer, ws.angle_sets.size() - 1)];
    AttentionShared<T> shared;
    shared.plan = &plan;
    if (rotates()) shared.turns = &set.turns;
    if (logit_bias_ != nullptr) {
      shared.bias = ws.logit_bias.data();
      shared.d_bias = ws.d_logit_bias.data();
    }
    shared.d_turns = set.d_turns.view();
    shared.scratch = &ws.attention_scratch;
    return shared;
  }

  static void hand_over_rows(Impl& ws, BasicChunkGradient<T>& gradient) {
    const std::array<const KeyIndex*, kTableCount> keys = {
        &ws.index.items,    &ws.index.tags,    &ws.index.authors, &ws.index.tags,
        &ws.index.segments, &ws.index.authors, &ws.index.surfaces};
    for (std::size_t t = 0; t < kTableCount; ++t) {
      BasicRowGradients<T>& out = gradient.tables[t];
      const Matrix<T>& rows = ws.rows.gradients[t];
      if (rows.cols() == 0) continue;
      // "No tag" and "no author" are rows of the content tables only.
      const bool skip_none = t >= static_cast<std::size_t>(TableId::kSemanticTag);
      for (std::size_t i = 0; i < rows.rows(); ++i) {
        const Key key = keys[t]->keys()[i];
        if (skip_none && key == kNoKey) continue;
        out.keys.push_back(key);
        out.rows.insert(out.rows.end(), rows.row(i), rows.row(i) + rows.cols());
      }
    }
  }

  ParameterLayout layout_;
  std::size_t heads_;
  std::size_t planes_;
  TokenEmbedding<T> embedding_;
  /// One set for all, or one a layer and the pooling's last.
  std::vector<std::vector<std::unique_ptr<const AngleTerm<T>>>> angle_terms_;
  std::unique_ptr<const LogitBias<T>> logit_bias_;
  std::vector<Block<T>> layers_;
  Pooling<T> pooling_;
  Head<T> head_;
  Towers<T> towers_;
};

template <class T>
base::Result<std::unique_ptr<const BasicRanker<T>>> make(const ModelConfig& config) {
  SF_TRY(config.validate());
  return std::make_unique<const TransformerRanker<T>>(config);
}

}  // namespace

template <class T>
BasicWorkspace<T>::BasicWorkspace() : impl_(std::make_unique<Impl>()) {}
template <class T>
BasicWorkspace<T>::~BasicWorkspace() = default;
template <class T>
BasicWorkspace<T>::BasicWorkspace(BasicWorkspace&&) noexcept = default;
template <class T>
BasicWorkspace<T>& BasicWorkspace<T>::operator=(BasicWorkspace&&) noexcept = default;
template class BasicWorkspace<float>;
template class BasicWorkspace<double>;

base::Result<std::unique_ptr<const Ranker>> make_ranker(const ModelConfig& config) {
  return make<float>(config);
}

base::Result<std::unique_ptr<const BasicRanker<double>>> make_double_ranker(
    const ModelConfig& config) {
  return make<double>(config);
}

base::Result<void> score(const Ranker& ranker, const Model& model, const Slate& slate,
                         Workspace& workspace, std::span<float> logits) {
  SF_TRY(check_slate(model.config, slate));
  SF_CHECK(logits.size() == slate.candidates.size() * model.config.n_tasks());
  const Slate* const one = &slate;
  const std::span chunk(&one, 1);
  (void)ranker.infer(model, chunk, workspace);
  const std::span<const float> mean = ranker.tower_logits(model, chunk, workspace).mean;
  std::copy(mean.begin(), mean.end(), logits.begin());
  calibrate(model.calibration, logits);
  return {};
}

}  // namespace sirenfeed::model
