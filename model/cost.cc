#include "model/cost.h"

#include <string_view>

#include "model/time_features.h"

namespace sirenfeed::model {
namespace {

constexpr double kNormFlops = 8;  // an element: mean, variance, (x − m)·s·w + b
constexpr double kSiluFlops = kFunctionFlops + 3;   // e^−x, 1 + ·, 1 / ·, x · σ
constexpr double kRotationFlops = 6;                // a plane: four products, two sums
constexpr double kWrapFlops = 6;                    // λ p θ and back into ±π
constexpr double kPairFlops = 10 + kFunctionFlops;  // seconds, logarithm, bucket or slope

double real(std::size_t n) { return static_cast<double>(n); }

/// The shape as doubles, with what follows from it.
struct Counts {
  Counts(const ModelConfig& config, const SlateShape& shape)
      : history(real(shape.history)),
        candidates(real(shape.candidates)),
        rows(history + candidates),
        pairs_candidates(candidates * history),
        pairs(history * (history > 0 ? history - 1 : 0) / 2 + pairs_candidates),
        d(config.d_model),
        heads(config.heads),
        planes(config.planes()) {}
  double history, candidates, rows;
  double pairs_candidates, pairs;  // query and key that it sees
  double d, heads, planes;
};

/// Linear layers prefix.0, prefix.1, … on one row, with an activation after each but the last.
double path_flops(const ParameterLayout& layout, const std::string& prefix, double activation) {
  double flops = 0;
  double outputs = 0;  // of the layer before
  for (std::size_t i = 0;; ++i) {
    const TensorSpec* weight = layout.find(prefix + "." + std::to_string(i) + ".weight");
    if (weight == nullptr) return flops;
    if (i > 0) flops += activation * outputs;
    outputs = real(weight->shape[0]);
    flops += 2 * real(weight->size) + outputs;
  }
}

/// f of one distinct time: the paths, their sum, and the features.
double temporal_flops(const ParameterLayout& layout, const std::string& prefix, double features,
                      double planes) {
  const double sine = path_flops(layout, prefix + ".sine", kFunctionFlops + 1);
  const double relu = path_flops(layout, prefix + ".relu", 1);
  return features * kFunctionFlops + sine + relu + (sine > 0 && relu > 0 ? planes : 0);
}

/// One set of angle networks with what adds them to Θ.
double network_flops(const ModelConfig& config, const ParameterLayout& layout,
                     const SlateShape& shape, const Counts& n, const std::string& prefix) {
  const VariantParts parts = variant_parts(config);
  const double add = 2 * n.rows * n.planes;  // Θ += ω f
  double flops = 0;
  if (parts.hierarchy) {
    for (const ScaleGroup& group : scale_groups(static_cast<std::size_t>(config.planes()))) {
      flops += real(shape.times) *
               temporal_flops(layout, prefix + ".hierarchy." + time_scale_name(group.scale),
                              real(scale_feature_count(group.scale)), real(group.planes));
    }
    flops += add;
  } else if (parts.sine || parts.relu) {
    const double gates = parts.discovery ? real(kTimeFeatureCount) : 0;
    flops += real(shape.times) * (gates + temporal_flops(layout, prefix + ".temporal",
                                                         real(kTimeFeatureCount), n.planes));
    flops += add;
  }
  if (parts.semantic) {
    const double sources = parts.discovery ? 2 * (shape.tags + 3) : shape.tags + 2;
    flops +=
        real(shape.meanings) * (sources * config.semantic_width +
                                path_flops(layout, prefix + ".semantic.sine", kFunctionFlops + 1));
    flops += add;
  }
  return flops;
}

double angle_flops(const ModelConfig& config, const ParameterLayout& layout,
                   const SlateShape& shape, const Counts& n) {
  const VariantParts parts = variant_parts(config);
  if (!parts.position) return 0;
  const auto position_planes = real(parts.position_planes);
  const auto calendar_planes = real(parts.calendar_planes);
  double flops = 0;
  for (const std::string& prefix : angle_prefixes(config)) {
    flops += (n.history + 1) * position_planes * kWrapFlops + n.rows * position_planes;
    flops += network_flops(config, layout, shape, n, prefix);
    flops += real(shape.times) * calendar_planes * 4 + n.rows * calendar_planes;
    flops += n.rows * n.planes * 2 * kFunctionFlops;  // cos Θ, sin Θ
  }
  return flops;
}

/// Attention of `queries` rows over the history with `pairs` of query and key, W_o included.
double attention_flops(const Counts& n, double queries, double pairs, bool rotates, bool biased) {
  const double linear = 2 * n.d * n.d;
  double flops = linear * (2 * queries + 2 * n.history);  // query and output; key and value
  if (rotates) flops += kRotationFlops * n.heads * n.planes * (queries + n.history);
  flops += pairs * (4 * n.d + n.heads * (1 + 3 + kFunctionFlops));  // q·k, softmax, weights · v
  if (biased) flops += pairs * n.heads;
  return flops;
}

double layer_flops(const Counts& n, bool rotates, bool biased) {
  const double norms = kNormFlops * n.d * (2 * n.rows + n.history) + n.d * n.history;  // LN, x + a
  const double residuals = 2 * 2 * n.d * n.rows;
  const double feed_forward = n.rows * (2 * 2 * 4 * n.d * n.d + 5 * n.d + 4 * n.d * kSiluFlops);
  return norms + residuals + feed_forward + attention_flops(n, n.rows, n.pairs, rotates, biased);
}

double pooling_flops(const ModelConfig& config, const Counts& n, bool rotates, bool biased) {
  const double bits = real(config.n_actions() + 1);
  return attention_flops(n, n.candidates, n.pairs_candidates, rotates, biased) + bits * n.history +
         2 * n.heads * bits * n.pairs_candidates;
}

double head_flops(const ModelConfig& config, const ParameterLayout& layout, const Counts& n) {
  const double context = real(config.n_context());
  const double wide = 2 * real(config.n_tasks()) * (real(config.pooled_actions()) + context);
  return n.candidates * (2 * kNormFlops * n.d + 4 * context + wide +
                         path_flops(layout, "head", kSiluFlops) + 2 * real(config.n_tasks()));
}

double token_flops(const ModelConfig& config, const SlateShape& shape, const Counts& n) {
  double flops = n.rows * n.d * (shape.tags + 1 + 2 + kNormFlops) + n.history * n.d * shape.actions;
  if (variant_parts(config).time_embedding) {
    constexpr auto kFeatures = static_cast<double>(kTimeFeatureCount);
    flops += n.rows * (kFeatures * kFunctionFlops + 2 * kFeatures * n.d + 2 * n.d);
  }
  return flops;
}

std::size_t part_of(std::string_view tensor) {
  const auto begins = [tensor](std::string_view prefix) { return tensor.starts_with(prefix); };
  if (tensor.find("rotary.") != std::string_view::npos) return 1;
  if (begins("bias.") || begins("alibi.")) return 2;
  if (begins("layers.")) return 3;
  if (begins("pooling.")) return 4;
  return begins("head.") ? 5 : 0;
}

}  // namespace

std::size_t ModelCost::rows_bytes(const std::array<std::size_t, kTableCount>& rows) const {
  std::size_t bytes = 0;
  for (std::size_t t = 0; t < kTableCount; ++t) bytes += rows[t] * row_bytes[t];
  return bytes;
}

ModelCost model_cost(const ModelConfig& config, const SlateShape& shape) {
  const ParameterLayout layout = make_layout(config);
  const VariantParts parts = variant_parts(config);
  const Counts n(config, shape);
  const bool biased = parts.time_bias || parts.alibi;
  ModelCost cost;
  cost.parts = {
      {"tokens", 0, token_flops(config, shape, n)},
      {"angles", 0, angle_flops(config, layout, shape, n)},
      {"bias", 0, biased ? n.pairs * n.heads * kPairFlops : 0},
      {"layers", 0, config.layers * layer_flops(n, parts.position, biased)},
      {"pooling", 0, pooling_flops(config, n, parts.position, biased)},
      {"head", 0, head_flops(config, layout, n)},
  };
  for (const TensorSpec& spec : layout.tensors) {
    cost.parts[part_of(spec.name)].parameters += spec.size;
  }
  for (const PartCost& part : cost.parts) {
    cost.dense_parameters += part.parameters;
    cost.flops += part.flops;
  }
  const auto row = [](int width) {
    return width == 0 ? 0 : sizeof(Key) + static_cast<std::size_t>(width) * sizeof(float);
  };
  const std::size_t content = row(config.d_model);
  const std::size_t semantic = row(parts.semantic ? config.semantic_width : 0);
  const std::size_t discovered = row(parts.discovery ? config.semantic_width : 0);
  cost.row_bytes = {content, content, content, semantic, semantic, discovered, discovered};
  return cost;
}

std::array<std::size_t, kTableCount> row_counts(const Model& model) {
  std::array<std::size_t, kTableCount> rows{};
  for (std::size_t t = 0; t < kTableCount; ++t) rows[t] = model.tables[t].size();
  return rows;
}

}  // namespace sirenfeed::model
