#include "model/model.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "base/check.h"
#include "model/calibration.h"
#include "model/cross_tower.h"
#include "model/discovery.h"
#include "model/time_features.h"

namespace sirenfeed::model {
namespace {

using base::ErrorCode;
using base::fail;

/// The click bit of every head starts at 0.3/H in the rows click and long_view: someone who clicked
/// what looks like this candidate will click again.
void start_wide_action_weight(Model& model) {
  const ModelConfig& config = model.config;
  const auto click = std::find(config.actions.begin(), config.actions.end(), "click");
  if (click == config.actions.end()) return;
  const auto action = static_cast<std::size_t>(click - config.actions.begin());
  const std::span<float> weight = model.tensor("head.wide.action_weight");
  const std::size_t n_tasks = config.n_tasks();
  for (std::size_t task = 0; task < n_tasks; ++task) {
    if (config.tasks[task] != "click" && config.tasks[task] != "long_view") continue;
    for (std::size_t head = 0; head < static_cast<std::size_t>(config.heads); ++head) {
      const std::size_t bit = head * (config.n_actions() + 1) + action;
      weight[bit * n_tasks + task] = static_cast<float>(0.3 / config.heads);
    }
  }
}

template <class T>
std::array<BasicEmbeddingTable<T>, kTableCount> make_tables(const ModelConfig& config) {
  using Table = BasicEmbeddingTable<T>;
  const VariantParts parts = variant_parts(config);
  const int semantic_width = parts.semantic ? config.semantic_width : 0;
  const int discovery_width = parts.discovery ? config.semantic_width : 0;
  const Start unit{StartKind::kUniform, 1.0};
  const std::uint64_t seed = config.seed;
  return {
      Table("embedding.item", config.d_model, {StartKind::kConstant, 0.0}, seed),
      Table("embedding.tag", config.d_model, {StartKind::kNormal, 0.5}, seed),
      Table("embedding.author", config.d_model, {StartKind::kNormal, 0.1}, seed),
      Table("rotary.semantic.tag", semantic_width, unit, seed),
      Table("rotary.semantic.segment", semantic_width, unit, seed),
      Table("rotary.semantic.author", discovery_width, unit, seed),
      Table("rotary.semantic.surface", discovery_width, unit, seed),
  };
}

template <class T>
BasicEmbeddingTable<T> make_cross(const ModelConfig& config) {
  const int width = config.has_cross_tower() ? static_cast<int>(config.n_tasks()) : 0;
  return BasicEmbeddingTable<T>("cross", width, {StartKind::kConstant, 0.0}, config.seed);
}

template <class T>
void copy_rows(const EmbeddingTable& from, BasicEmbeddingTable<T>& to) {
  for (std::uint32_t index = 0; index < from.size(); ++index) {
    const std::span<const float> row = from.row_at(index);
    std::copy(row.begin(), row.end(), to.row_at(to.find_or_create(from.key_at(index))).begin());
  }
}

/// b += share · W[:, column], the age feature's part of one shift; W lies as [in, out].
void fold(Model& model, const std::string& layer, std::size_t column, float share) {
  const std::span<float> weight = model.tensor(layer + ".weight");
  const std::span<float> bias = model.tensor(layer + ".bias");
  for (std::size_t o = 0; o < bias.size(); ++o) bias[o] += share * weight[column * bias.size() + o];
}

/// One shift by S/2 in everything that reads the age.
void fold_half_span(Model& model) {
  constexpr std::size_t kAgeColumn = kTimeFeatureCount - 1;
  const VariantParts parts = variant_parts(model.config);
  if (parts.time_embedding) fold(model, "time_embedding", kAgeColumn, 0.5F);
  // The discovery variant's networks read the age times its gate.
  float share = 0.5F;
  if (parts.discovery) {
    const float a = model.tensor("rotary.gate")[static_cast<std::size_t>(Signal::kAge)];
    share *= static_cast<float>(gate_of(static_cast<double>(a)));
  }
  for (const std::string& prefix : angle_prefixes(model.config)) {
    if (parts.hierarchy) {  // the last scale always has planes
      fold(model, prefix + ".hierarchy.age.sine.0", 0, share);
      fold(model, prefix + ".hierarchy.age.relu.0", 0, share);
      continue;
    }
    if (parts.sine) fold(model, prefix + ".temporal.sine.0", kAgeColumn, share);
    if (parts.relu) fold(model, prefix + ".temporal.relu.0", kAgeColumn, share);
  }
}

base::Result<void> check_item(const Slate& slate, const ItemRef& item, const char* kind,
                              std::size_t index) {
  if (item.tags_begin <= item.tags_end && item.tags_end <= slate.tags.size()) return {};
  return fail(ErrorCode::kInvalidArgument, "{}[{}]: tags {} to {} lie outside the slate's {}", kind,
              index, item.tags_begin, item.tags_end, slate.tags.size());
}

}  // namespace

template <class T>
std::span<T> BasicModel<T>::tensor(std::string_view name) {
  const TensorSpec* spec = layout.find(name);
  SF_CHECK(spec != nullptr);
  return std::span(dense).subspan(spec->offset, spec->size);
}

template <class T>
std::span<const T> BasicModel<T>::tensor(std::string_view name) const {
  const TensorSpec* spec = layout.find(name);
  SF_CHECK(spec != nullptr);
  return std::span(dense).subspan(spec->offset, spec->size);
}

template struct BasicModel<float>;
template struct BasicModel<double>;

base::Result<Model> make_model(const ModelConfig& config) {
  SF_TRY(config.validate());
  Model model;
  model.config = config;
  model.layout = make_layout(config);
  model.dense.resize(model.layout.size);
  start_tensors(model.layout, config.seed, model.dense);
  start_wide_action_weight(model);
  model.tables = make_tables<float>(config);
  model.cross = make_cross<float>(config);
  if (config.has_cross_tower()) {
    model.statistics.cross_edges.assign(config.context_row_width() * kCrossEdges, 0.0F);
  }
  model.statistics.context_mean.assign(config.context_row_width(), 0.0F);
  model.statistics.context_std.assign(config.context_row_width(), 1.0F);
  model.statistics.action_mean.assign(config.n_actions() + 1, 0.0F);
  model.calibration = identity_calibration(config);
  return model;
}

BasicModel<double> to_double(const Model& model) {
  BasicModel<double> wide;
  wide.config = model.config;
  wide.layout = model.layout;
  wide.dense.assign(model.dense.begin(), model.dense.end());
  wide.tables = make_tables<double>(model.config);
  wide.cross = make_cross<double>(model.config);
  copy_rows(model.cross, wide.cross);
  for (std::size_t t = 0; t < kTableCount; ++t) copy_rows(model.tables[t], wide.tables[t]);
  wide.statistics = model.statistics;
  wide.calibration = model.calibration;
  return wide;
}

int shift_time_reference(Model& model, std::int64_t newest_learned_ms) {
  const std::int64_t half_span = model.config.time_span_ms / 2;
  int shifts = 0;
  while (newest_learned_ms - model.config.time_reference_ms > half_span) {
    model.config.time_reference_ms += half_span;
    fold_half_span(model);
    ++shifts;
  }
  return shifts;
}

HistoryWindow history_window(const ModelConfig& config, const Slate& slate) {
  const auto history_max = static_cast<std::size_t>(config.history_max);
  HistoryWindow window{slate.history.size(), 0};
  while (window.begin > 0 && window.count < history_max) {
    --window.begin;
    window.count += is_history_token(config, slate.history[window.begin]) ? 1 : 0;
  }
  return window;
}

base::Result<void> check_slate(const ModelConfig& config, const Slate& slate) {
  const std::size_t n_context = config.context_row_width();
  if (slate.context.size() != slate.candidates.size() * n_context) {
    return fail(ErrorCode::kInvalidArgument,
                "context has {} values, expected {} candidates times {} features",
                slate.context.size(), slate.candidates.size(), n_context);
  }
  // 0 · x is 0 for finite x and NaN otherwise: the sum tells of all without a branch for each.
  float lanes[16] = {};
  for (std::size_t i = 0; i < slate.context.size() / 16 * 16; ++i) {
    lanes[i % 16] += slate.context[i] * 0.0F;
  }
  bool all_finite = true;
  for (const float lane : lanes) all_finite = all_finite && lane == 0.0F;
  for (std::size_t i = all_finite ? slate.context.size() / 16 * 16 : 0; i < slate.context.size();
       ++i) {
    if (!std::isfinite(slate.context[i])) {
      return fail(ErrorCode::kInvalidArgument, "candidates[{}]: feature {} is not finite",
                  i / n_context, config.context_name(i % n_context));
    }
  }
  for (std::size_t i = 0; i < slate.history.size(); ++i) {
    SF_TRY(check_item(slate, slate.history[i].item, "history", i));
  }
  for (std::size_t i = 0; i < slate.candidates.size(); ++i) {
    SF_TRY(check_item(slate, slate.candidates[i], "candidates", i));
  }
  return {};
}

}  // namespace sirenfeed::model
