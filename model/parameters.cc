#include "model/parameters.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/check.h"

namespace sirenfeed::model {
namespace {

constexpr std::size_t kHeadHidden = 64;
constexpr std::size_t kCounterHidden = 64;
constexpr std::size_t kPositionBuckets = 128;
constexpr std::size_t kTimeBuckets = 64;
constexpr std::size_t kTimeFeatures = kTimeFeatureCount;

class LayoutBuilder {
 public:
  TensorSpec& add(const std::string& name, std::vector<std::size_t> shape, Start start) {
    TensorSpec spec;
    spec.name = name;
    spec.start_stream = name;
    spec.size = 1;
    for (const std::size_t extent : shape) spec.size *= extent;
    spec.shape = std::move(shape);
    spec.start = start;
    spec.offset = layout_.size;
    layout_.size += spec.size;
    layout_.tensors.push_back(std::move(spec));
    return layout_.tensors.back();
  }

  void constant(const std::string& name, std::size_t size, double value) {
    add(name, {size}, {StartKind::kConstant, value});
  }

  TensorSpec& weight(const std::string& name, std::size_t out, std::size_t in, Start start) {
    TensorSpec& spec = add(name, {out, in}, start);
    spec.transposed = true;
    return spec;
  }

  /// Weight, and bias when asked for, both U(±1/√in).
  void linear(const std::string& prefix, std::size_t out, std::size_t in, bool bias) {
    const Start start{StartKind::kUniform, 1.0 / std::sqrt(static_cast<double>(in))};
    weight(prefix + ".weight", out, in, start);
    if (bias) add(prefix + ".bias", {out}, start);
  }

  void norm(const std::string& prefix, std::size_t width) {
    constant(prefix + ".weight", width, 1.0);
    constant(prefix + ".bias", width, 0.0);
  }

  /// Query, key (a copy of query at the start), value, output, empty.
  void attention(const std::string& prefix, std::size_t d) {
    linear(prefix + ".query", d, d, false);
    linear(prefix + ".key", d, d, false);
    layout_.tensors.back().start_stream = prefix + ".query.weight";
    linear(prefix + ".value", d, d, false);
    linear(prefix + ".output", d, d, false);
    constant(prefix + ".empty", d, 0.0);
  }

  /// To `planes` planes. The last layer starts at 0, or with paper_init as a later layer would.
  void angle_path(const std::string& prefix, const ModelConfig& config, std::size_t in,
                  std::size_t planes, bool sine) {
    const auto width = static_cast<std::size_t>(config.angle_width);
    for (int i = 0; i < config.angle_hidden_layers; ++i) {
      const auto fan_in = static_cast<double>(i == 0 ? in : width);
      double bound = 1.0 / std::sqrt(fan_in);
      if (sine) bound = i == 0 ? 1.0 / fan_in : std::sqrt(6.0 / fan_in) / config.omega0;
      const std::string layer = prefix + "." + std::to_string(i);
      weight(layer + ".weight", width, i == 0 ? in : width, {StartKind::kUniform, bound});
      add(layer + ".bias", {width}, {StartKind::kUniform, 1.0 / std::sqrt(fan_in)});
    }
    const std::string last = prefix + "." + std::to_string(config.angle_hidden_layers);
    if (!config.paper_init) {
      weight(last + ".weight", planes, width, {});
      constant(last + ".bias", planes, 0.0);
      return;
    }
    const double plain = 1.0 / std::sqrt(static_cast<double>(width));
    const double bound = sine ? std::sqrt(6.0) * plain / config.omega0 : plain;
    weight(last + ".weight", planes, width, {StartKind::kUniform, bound});
    add(last + ".bias", {planes}, {StartKind::kUniform, plain});
  }

  void omega(const std::string& name, const ModelConfig& config) {
    const auto planes = static_cast<std::size_t>(config.planes());
    add(name, {planes}, {StartKind::kConstant, std::numbers::pi}).trained = config.omega_learned;
  }

  void leave_to_its_own_optimiser(std::string_view prefix) {
    for (TensorSpec& spec : layout_.tensors) {
      if (spec.name.starts_with(prefix)) spec.trained = false;
    }
  }

  ParameterLayout take() { return std::move(layout_); }

 private:
  ParameterLayout layout_;
};

/// The angle networks and their ω under one prefix.
void add_angles(LayoutBuilder& builder, const ModelConfig& config, const VariantParts& parts,
                const std::string& prefix) {
  const auto planes = static_cast<std::size_t>(config.planes());
  if (parts.sine || parts.relu) {
    builder.omega(prefix + ".omega", config);
    builder.constant(prefix + ".unknown_time", planes, 0.0);
  }
  if (parts.hierarchy) {
    for (const ScaleGroup& group : scale_groups(planes)) {
      const std::string name = prefix + ".hierarchy." + time_scale_name(group.scale);
      const std::size_t in = scale_feature_count(group.scale);
      builder.angle_path(name + ".sine", config, in, group.planes, true);
      builder.angle_path(name + ".relu", config, in, group.planes, false);
    }
  } else {
    if (parts.sine) {
      builder.angle_path(prefix + ".temporal.sine", config, kTimeFeatures, planes, true);
    }
    if (parts.relu) {
      builder.angle_path(prefix + ".temporal.relu", config, kTimeFeatures, planes, false);
    }
  }
  if (parts.semantic) {
    builder.omega(prefix + ".omega_semantic", config);
    builder.angle_path(prefix + ".semantic.sine", config,
                       static_cast<std::size_t>(config.semantic_width), planes, true);
  }
}

void add_rotary(LayoutBuilder& builder, const ModelConfig& config, const VariantParts& parts) {
  if (parts.position) {
    builder.add("rotary.lambda", {1}, {StartKind::kConstant, 1.0}).trained = config.lambda_learned;
  }
  if (parts.discovery) builder.constant("rotary.gate", kSignalCount, 0.0);
  for (const std::string& prefix : angle_prefixes(config)) {
    add_angles(builder, config, parts, prefix);
  }
  const auto heads = static_cast<std::size_t>(config.heads);
  if (parts.time_bias) {
    builder.add("bias.position", {heads, kPositionBuckets}, {});
    builder.add("bias.time", {heads, kTimeBuckets}, {});
  }
  if (parts.alibi) builder.constant("alibi.slope", heads, -2.0);
}

void add_layer(LayoutBuilder& builder, const ModelConfig& config, int layer) {
  const auto d = static_cast<std::size_t>(config.d_model);
  const std::string prefix = "layers." + std::to_string(layer);
  builder.norm(prefix + ".norm1", d);
  builder.attention(prefix + ".attention", d);
  builder.norm(prefix + ".norm2", d);
  builder.linear(prefix + ".feed_forward.0", 4 * d, d, true);
  builder.linear(prefix + ".feed_forward.1", d, 4 * d, true);
  builder.add(prefix + ".residual", {2}, {StartKind::kConstant, config.residual_start}).trained =
      config.residual_learned;
}

void add_head(LayoutBuilder& builder, const ModelConfig& config) {
  const auto d = static_cast<std::size_t>(config.d_model);
  const std::size_t n_tasks = config.n_tasks();
  const std::size_t n_context = config.n_context();
  const std::size_t pooled_actions = config.pooled_actions();
  builder.norm("head.norm_token", d);
  builder.norm("head.norm_pooled", d);
  builder.linear("head.0", kHeadHidden, 2 * d + n_context + pooled_actions, true);
  builder.linear("head.1", kHeadHidden, kHeadHidden, true);
  builder.weight("head.2.weight", n_tasks, kHeadHidden, {StartKind::kNormal, 0.01});
  builder.add("head.2.bias", {n_tasks},
              {StartKind::kUniform, 1.0 / std::sqrt(static_cast<double>(kHeadHidden))});
  builder.weight("head.wide.action_weight", n_tasks, pooled_actions, {});
  builder.weight("head.wide.context_weight", n_tasks, n_context, {});
}

/// Fills one dense tensor; the stream's order is the file's [out, in].
void start_tensor(const TensorSpec& spec, std::uint64_t seed, std::span<float> out) {
  std::vector<float> values(spec.size);
  fill_start(spec.start, seed, spec.start_stream, 0, values);
  if (!spec.transposed) {
    std::copy(values.begin(), values.end(), out.begin());
    return;
  }
  const std::size_t rows = spec.shape[0];
  const std::size_t cols = spec.shape[1];
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t c = 0; c < cols; ++c) out[c * rows + r] = values[r * cols + c];
  }
}

void add_counter_tower(LayoutBuilder& builder, const ModelConfig& config) {
  const std::size_t n_tasks = config.n_tasks();
  builder.linear("counter.0", kCounterHidden, config.context_row_width(), true);
  builder.linear("counter.1", kCounterHidden, kCounterHidden, true);
  builder.weight("counter.2.weight", n_tasks, kCounterHidden, {StartKind::kNormal, 0.01});
  builder.add("counter.2.bias", {n_tasks}, {});
  builder.leave_to_its_own_optimiser("counter.");
}

}  // namespace

const TensorSpec* ParameterLayout::find(std::string_view name) const {
  const auto found = std::find_if(tensors.begin(), tensors.end(),
                                  [name](const TensorSpec& spec) { return spec.name == name; });
  return found == tensors.end() ? nullptr : &*found;
}

std::size_t ParameterLayout::offset(std::string_view name) const {
  const TensorSpec* spec = find(name);
  SF_CHECK(spec != nullptr);
  return spec->offset;
}

VariantParts variant_parts(const ModelConfig& config) {
  const auto planes = static_cast<std::size_t>(config.planes());
  const Variant variant = config.variant;
  const auto any_of = [variant](std::initializer_list<Variant> list) {
    return std::find(list.begin(), list.end(), variant) != list.end();
  };
  const bool both =
      any_of({Variant::kSiren, Variant::kSirenTimeBias, Variant::kSirenAlibiTime,
              Variant::kSirenLinear, Variant::kSirenHierarchical, Variant::kSirenDiscovery});
  VariantParts parts;
  parts.position = !any_of({Variant::kNone, Variant::kTimeBias});
  parts.sine = both || any_of({Variant::kSirenTemporal, Variant::kSirenSineOnly});
  parts.relu = both || any_of({Variant::kSirenTemporal, Variant::kSirenReluOnly});
  parts.semantic = both || variant == Variant::kSirenSemantic;
  parts.time_bias = any_of({Variant::kTimeBias, Variant::kSirenTimeBias});
  parts.alibi = any_of({Variant::kAlibiTime, Variant::kSirenAlibiTime});
  parts.time_embedding = variant == Variant::kTimeEmbedding;
  parts.hierarchy = variant == Variant::kSirenHierarchical;
  parts.discovery = variant == Variant::kSirenDiscovery;
  parts.position_planes = parts.position ? planes : 0;
  if (variant == Variant::kTorope) {
    parts.position_planes = planes / 2;
    parts.calendar_planes = planes - planes / 2;
  }
  if (variant == Variant::kSirenLinear)
    parts.calendar_planes = std::max<std::size_t>(1, planes / 4);
  return parts;
}

std::vector<ScaleGroup> scale_groups(std::size_t planes) {
  std::vector<ScaleGroup> groups;
  for (std::size_t g = 0; g < kTimeScaleCount; ++g) {
    const std::size_t first = g * planes / kTimeScaleCount;
    const std::size_t end = (g + 1) * planes / kTimeScaleCount;
    if (end > first) groups.push_back({static_cast<TimeScale>(g), first, end - first});
  }
  return groups;
}

std::vector<std::string> angle_prefixes(const ModelConfig& config) {
  if (!config.per_layer_angles) return {"rotary"};
  std::vector<std::string> prefixes;
  for (int layer = 0; layer < config.layers; ++layer) {
    prefixes.push_back("layers." + std::to_string(layer) + ".rotary");
  }
  prefixes.emplace_back("pooling.rotary");
  return prefixes;
}

ParameterLayout make_layout(const ModelConfig& config) {
  const auto d = static_cast<std::size_t>(config.d_model);
  const VariantParts parts = variant_parts(config);
  LayoutBuilder builder;
  builder.add("embedding.action.weight", {config.n_actions() + 1, d},
              {StartKind::kNormal, 1.0 / std::sqrt(static_cast<double>(d))});
  builder.norm("token_norm", d);
  if (parts.time_embedding) {
    builder.weight("time_embedding.weight", d, kTimeFeatures, {StartKind::kNormal, 0.3});
    builder.constant("time_embedding.bias", d, 0.0);
  }
  add_rotary(builder, config, parts);
  for (int layer = 0; layer < config.layers; ++layer) add_layer(builder, config, layer);
  builder.attention("pooling", d);
  add_head(builder, config);
  if (config.has_counter_tower()) add_counter_tower(builder, config);
  return builder.take();
}

ParameterLayout make_attention_layout(const ModelConfig& config, std::size_t kinds) {
  const VariantParts parts = variant_parts(config);
  LayoutBuilder builder;
  add_rotary(builder, config, parts);
  if (parts.semantic) {
    builder.add("rotary.semantic.kind.weight",
                {kinds, static_cast<std::size_t>(config.semantic_width)},
                {StartKind::kUniform, 1.0});
  }
  builder.attention("attention", static_cast<std::size_t>(config.d_model));
  return builder.take();
}

void start_tensors(const ParameterLayout& layout, std::uint64_t seed, std::span<float> dense) {
  SF_CHECK(dense.size() == layout.size);
  for (const TensorSpec& spec : layout.tensors) {
    start_tensor(spec, seed, dense.subspan(spec.offset, spec.size));
  }
}

}  // namespace sirenfeed::model
