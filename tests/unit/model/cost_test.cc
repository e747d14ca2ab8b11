#include "model/cost.h"

#include "tests/unit/model/support.h"

namespace sirenfeed::model {
namespace {

double flops_of(const ModelCost& cost, const std::string& part) {
  for (const PartCost& each : cost.parts) {
    if (each.name == part) return each.flops;
  }
  ADD_FAILURE() << part;
  return 0;
}

std::size_t parameters_of(const ModelCost& cost, const std::string& part) {
  for (const PartCost& each : cost.parts) {
    if (each.name == part) return each.parameters;
  }
  ADD_FAILURE() << part;
  return 0;
}

/// d 4, H 1, P 2, N 1, m 3 with one hidden layer, w 2, A 1, K 1, F 2.
ModelConfig tiny_config(Variant variant) {
  ModelConfig config;
  config.variant = variant;
  config.d_model = 4;
  config.heads = 1;
  config.layers = 1;
  config.angle_width = 3;
  config.angle_hidden_layers = 1;
  config.semantic_width = 2;
  config.actions = {"click"};
  config.tasks = {"click"};
  config.context_names = {"a", "b"};
  return config;
}

TEST(Cost, EqualsAHandCountOfATinySiren) {
  // 2 history tokens, 1 candidate: 3 rows, 3 distinct times, 3 meanings; the second token sees the
  // first, the candidate both: 3 pairs, 2 of them in the pooling.
  const ModelCost cost = model_cost(tiny_config(Variant::kSiren), SlateShape::all_distinct(2, 1));
  // embedding.action 2·4, token_norm 2·4; per row 1 tag, author, item, share: 4·4, norm 8·4.
  EXPECT_EQ(parameters_of(cost, "tokens"), 16U);
  EXPECT_EQ(flops_of(cost, "tokens"), 3 * (16 + 32) + 2 * 4);
  // lambda 1, omega 2, unknown 2, omega_semantic 2; sine and ReLU 5·3+3 + 3·2+2; f_sem 2·3+3 + 8.
  EXPECT_EQ(parameters_of(cost, "angles"), 1U + 2 + 2 + 2 + 2 * (18 + 8) + (9 + 8));
  const double position = 3 * 2 * 6 + 3 * 2;
  const double sine = (2 * 15 + 3) + 3 * 17 + (2 * 6 + 2);
  const double relu = (2 * 15 + 3) + 3 * 1 + (2 * 6 + 2);
  const double temporal = 3 * (5 * 16 + sine + relu + 2) + 2 * 3 * 2;
  const double semantic = 3 * (3 * 2 + (2 * 6 + 3) + 3 * 17 + (2 * 6 + 2)) + 2 * 3 * 2;
  EXPECT_EQ(flops_of(cost, "angles"), position + temporal + semantic + 3 * 2 * 2 * 16);
  EXPECT_EQ(flops_of(cost, "bias"), 0);
  // two norms 16, four projections 64, empty 4, feed-forward 4·16+16 + 16·4+4, residual 2.
  EXPECT_EQ(parameters_of(cost, "layers"), 16U + 64 + 4 + 80 + 68 + 2);
  const double norms = 8 * 4 * (2 * 3 + 2) + 4 * 2;
  const double attention = 2 * 16 * (2 * 3 + 2 * 2) + 6 * 2 * (3 + 2) + 3 * (4 * 4 + 1 * 20);
  const double feed_forward = 3 * (2 * 64 + 16 + 2 * 64 + 4 + 16 * 19);
  EXPECT_EQ(flops_of(cost, "layers"), norms + attention + feed_forward + 4 * 4 * 3);
  EXPECT_EQ(parameters_of(cost, "pooling"), 64U + 4);
  EXPECT_EQ(flops_of(cost, "pooling"),
            2 * 16 * (2 * 1 + 2 * 2) + 6 * 2 * (1 + 2) + 2 * (4 * 4 + 20) + 2 * 2 + 2 * 2 * 2);
  // head.0 [64, 4 + 4 + 2 + 2]; norms 16; wide 2 + 2.
  EXPECT_EQ(parameters_of(cost, "head"), 16U + (64 * 12 + 64) + (64 * 64 + 64) + (64 + 1) + 4);
  EXPECT_EQ(flops_of(cost, "head"), 2 * 8 * 4 + 4 * 2 + 2 * (2 + 2) + (2 * 768 + 64) + 64 * 19 +
                                        (2 * 4096 + 64) + 64 * 19 + (2 * 64 + 1) + 2);
  const std::array<std::size_t, kTableCount> row_bytes = {24, 24, 24, 16, 16, 0, 0};
  EXPECT_EQ(cost.row_bytes, row_bytes);
  EXPECT_EQ(cost.rows_bytes({1, 2, 0, 3, 0, 5, 0}), 24U + 48 + 48);
}

TEST(Cost, PartsSumToTheWholeLayoutOfEveryVariant) {
  for (const Variant variant : all_variants()) {
    for (const bool per_layer : {false, true}) {
      ModelConfig config = test::small_config(variant);
      config.layers = 2;
      config.per_layer_angles = per_layer;
      const ModelCost cost = model_cost(config, SlateShape::all_distinct(5, 3));
      std::size_t parameters = 0;
      double flops = 0;
      for (const PartCost& part : cost.parts) {
        parameters += part.parameters;
        flops += part.flops;
      }
      EXPECT_EQ(parameters, make_layout(config).size) << variant_name(variant);
      EXPECT_EQ(cost.dense_parameters, parameters);
      EXPECT_EQ(cost.flops, flops);
      const bool plain = variant == Variant::kNone || variant == Variant::kTimeBias;
      EXPECT_EQ(flops_of(cost, "angles") == 0, plain) << variant_name(variant);
    }
  }
}

/// The widths that the paper's overhead is stated for here.
ModelConfig wide_config(Variant variant) {
  ModelConfig config;
  config.variant = variant;
  config.d_model = 64;
  config.heads = 4;
  config.layers = 2;
  for (int i = 0; i < 79; ++i) config.context_names.push_back("c" + std::to_string(i));
  return config;
}

TEST(Cost, SirenAddsLessThanTwoPercentFlopsAndOneAndAHalfPercentParametersToOrdinal) {
  for (const std::size_t candidates : {1U, 10U, 500U}) {
    const SlateShape shape = SlateShape::all_distinct(128, candidates);
    const ModelCost siren = model_cost(wide_config(Variant::kSiren), shape);
    const ModelCost ordinal = model_cost(wide_config(Variant::kOrdinal), shape);
    const double flops = siren.flops / ordinal.flops - 1;
    const double parameters = static_cast<double>(siren.dense_parameters) /
                                  static_cast<double>(ordinal.dense_parameters) -
                              1;
    RecordProperty("flops_percent_" + std::to_string(candidates), std::to_string(100 * flops));
    RecordProperty("parameters_percent", std::to_string(100 * parameters));
    EXPECT_GT(flops, 0);
    EXPECT_LT(flops, 0.02) << candidates << " candidates";
    EXPECT_GT(parameters, 0);
    EXPECT_LT(parameters, 0.015);
    // The bound would not hold if f were evaluated for every layer: the check can fail.
    ModelConfig dear = wide_config(Variant::kSiren);
    dear.per_layer_angles = true;
    EXPECT_GT(model_cost(dear, shape).flops / ordinal.flops - 1, 0.02);
  }
}

}  // namespace
}  // namespace sirenfeed::model
