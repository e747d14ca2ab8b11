// Whole models and parts against the fixtures of tests/golden (origin: README.md there).
#include <cmath>

#include "model/angle_path.h"
#include "model/attention.h"
#include "model/block.h"
#include "model/kernels.h"
#include "model/model_file.h"
#include "model/ranker.h"
#include "model/rotation.h"
#include "model/slate_json.h"
#include "model/time_features.h"
#include "tests/unit/model/support.h"

namespace sirenfeed::model {
namespace {

using test::numbers;
using test::read_json;

constexpr double kWholeTolerance = 1e-4;
constexpr double kPartTolerance = 1e-5;

class WholeModel : public testing::TestWithParam<const char*> {};

TEST_P(WholeModel, GivesTheOraclesLogits) {
  const std::string folder = std::string("model_") + GetParam();
  auto model = load_model(test::golden_path(folder + "/model.safetensors"));
  ASSERT_TRUE(model) << model.error().message;
  auto ranker = make_ranker(model->config);
  ASSERT_TRUE(ranker) << ranker.error().message;
  // The fixtures that generate.py makes share their examples.
  const bool own = std::ifstream(test::golden_path(folder + "/examples.jsonl")).good();
  const auto examples =
      test::read_lines(own ? folder + "/examples.jsonl" : "examples_surfaces.jsonl");
  const auto expected = test::read_lines(folder + "/expected.jsonl");
  ASSERT_EQ(examples.size(), expected.size());
  ASSERT_GE(examples.size(), 10U);
  Workspace workspace;
  for (std::size_t i = 0; i < examples.size(); ++i) {
    const auto slate = slate_from_json(model->config, examples[i]);
    ASSERT_TRUE(slate) << slate.error().message;
    const boost::json::value line = boost::json::parse(expected[i]);
    const auto logits = numbers<double>(line.at("logits"));
    std::vector<float> scored(logits.size());
    ASSERT_EQ(scored.size(), slate->candidates.size() * model->config.n_tasks());
    ASSERT_TRUE(score(**ranker, *model, *slate, workspace, scored));
    for (std::size_t e = 0; e < logits.size(); ++e) {
      EXPECT_TRUE(std::abs(static_cast<double>(scored[e]) - logits[e]) <= kWholeTolerance)
          << line.at("case") << " logit " << e << ": " << scored[e] << " instead of " << logits[e];
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Golden, WholeModel,
    testing::Values("siren_small", "siren_default", "ordinal_small", "none_small",
                    "siren_temporal_small", "siren_sine_only_small", "siren_relu_only_small",
                    "siren_semantic_small", "siren_linear_small", "siren_linear_planes",
                    "torope_small", "torope_planes", "time_bias_small", "siren_time_bias_small",
                    "alibi_time_small", "siren_alibi_time_small", "time_embedding_small",
                    "siren_hierarchical_small", "siren_hierarchical_planes",
                    "siren_discovery_small", "siren_per_layer_small", "siren_actions_small",
                    "siren_options_small", "trained_siren", "trained_siren_hierarchical",
                    "trained_siren_discovery", "trained_siren_time_bias", "towers_small"),
    [](const auto& info) { return std::string(info.param); });

TEST(GoldenParts, TimeFeaturesMatch) {
  const boost::json::value fixture = read_json("time.json");
  for (const boost::json::value& line : fixture.as_array()) {
    ModelConfig config;
    config.time_reference_ms = line.at("time_reference_ms").to_number<std::int64_t>();
    config.time_span_ms = line.at("time_span_ms").to_number<std::int64_t>();
    config.zone_offset_ms = line.at("zone_offset_ms").to_number<std::int64_t>();
    const auto time_ms = line.at("ms").to_number<std::int64_t>();
    const auto t = time_features(config, time_ms);
    const auto expected = numbers<double>(line.at("t"));
    ASSERT_EQ(expected.size(), t.size());
    for (std::size_t i = 0; i < t.size(); ++i) {
      EXPECT_TRUE(std::abs(t[i] - expected[i]) <= 1e-12) << time_ms << " feature " << i;
    }
  }
}

/// A flat buffer and shape table made tensor by tensor from a fixture.
class FixtureParameters {
 public:
  void add(const std::string& name, const boost::json::value& value, bool weight) {
    const auto values = numbers<float>(value);
    TensorSpec spec;
    spec.name = name;
    spec.offset = layout.size;
    spec.size = values.size();
    spec.transposed = weight;
    spec.shape = {values.size()};
    if (weight) spec.shape = {value.as_array().size(), values.size() / value.as_array().size()};
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::size_t rows = spec.shape[0];
      const std::size_t in = weight ? spec.shape[1] : 1;
      dense.push_back(weight ? values[(i % rows) * in + i / rows] : values[i]);
    }
    layout.size += spec.size;
    layout.tensors.push_back(spec);
  }

  void add_path(const std::string& prefix, const boost::json::value& layers) {
    for (std::size_t i = 0; i < layers.as_array().size(); ++i) {
      const std::string layer = prefix + "." + std::to_string(i);
      add(layer + ".weight", layers.at(i).at("W"), true);
      add(layer + ".bias", layers.at(i).at("b"), false);
    }
  }

  ParameterLayout layout;
  std::vector<float> dense;
};

void expect_near(View<const float> actual, const std::vector<double>& expected, const char* what) {
  ASSERT_EQ(actual.rows * actual.cols, expected.size()) << what;
  for (std::size_t r = 0; r < actual.rows; ++r) {
    for (std::size_t c = 0; c < actual.cols; ++c) {
      const double want = expected[r * actual.cols + c];
      EXPECT_TRUE(std::abs(static_cast<double>(actual.row(r)[c]) - want) <= kPartTolerance)
          << what << " row " << r << " column " << c << ": " << actual.row(r)[c] << " instead of "
          << want;
    }
  }
}

/// sine + relu of the fixture's six inputs.
Matrix<float> angles_of(const boost::json::value& net, const boost::json::value& input,
                        double omega0, Matrix<float>* sine_out, Matrix<float>* relu_out) {
  FixtureParameters parameters;
  parameters.add_path("sine", net.at("sine"));
  parameters.add_path("relu", net.at("relu"));
  const auto hidden = static_cast<int>(net.at("sine").as_array().size()) - 1;
  const AnglePath<float> sine(parameters.layout, "sine", hidden, Activation::kSine, omega0);
  const AnglePath<float> relu(parameters.layout, "relu", hidden, Activation::kRelu, omega0);
  auto values = numbers<float>(input);
  const std::size_t rows = input.as_array().size();
  const std::size_t features = values.size() / rows;
  const View<const float> in{values.data(), rows, features, features};
  const std::size_t planes = net.at("sine").as_array().back().at("b").as_array().size();
  AnglePath<float>::State state;
  Matrix<float> f;
  sine_out->resize(rows, planes);
  relu_out->resize(rows, planes);
  f.resize(rows, planes);
  sine.forward(parameters.dense.data(), in, state, sine_out->view());
  relu.forward(parameters.dense.data(), in, state, relu_out->view());
  for (std::size_t i = 0; i < f.size(); ++i)
    f.data()[i] = sine_out->data()[i] + relu_out->data()[i];
  return f;
}

TEST(GoldenParts, AnglePathsMatchTheAuthors) {
  const boost::json::value fixture = read_json("angle.json");
  Matrix<float> sine;
  Matrix<float> relu;
  const Matrix<float> combined = angles_of(fixture.at("weights"), fixture.at("input"),
                                           fixture.at("omega0").to_number<double>(), &sine, &relu);
  expect_near(std::as_const(sine).view(), numbers<double>(fixture.at("sine")), "sine");
  expect_near(std::as_const(relu).view(), numbers<double>(fixture.at("relu")), "relu");
  expect_near(combined.view(), numbers<double>(fixture.at("combined")), "combined");
}

/// Θ = w f + λ θ_base position, as the fixtures define it.
Turns<float> turns_of(const Matrix<float>& f, const std::vector<double>& w, double lambda,
                      double base, std::size_t head_width) {
  Matrix<float> angles;
  angles.resize(f.rows(), f.cols());
  for (std::size_t r = 0; r < f.rows(); ++r) {
    for (std::size_t j = 0; j < f.cols(); ++j) {
      const double theta_base =
          std::pow(base, -2.0 * static_cast<double>(j) / static_cast<double>(head_width));
      const double theta = w[j] * static_cast<double>(f.row(r)[j]) +
                           lambda * theta_base * static_cast<double>(f.rows() - 1 - r);
      angles.row(r)[j] = static_cast<float>(theta);
    }
  }
  Turns<float> turns;
  make_turns(angles, turns);
  return turns;
}

TEST(GoldenParts, RotationMatchesTheAuthors) {
  const boost::json::value fixture = read_json("rotation.json");
  const auto f_values = numbers<float>(fixture.at("f"));
  const std::size_t rows = fixture.at("f").as_array().size();
  Matrix<float> f;
  f.resize(rows, f_values.size() / rows);
  std::copy(f_values.begin(), f_values.end(), f.data());
  const Turns<float> turns =
      turns_of(f, numbers<double>(fixture.at("w")), fixture.at("lambda_").to_number<double>(),
               fixture.at("base").to_number<double>(), 2 * f.cols());
  Matrix<float> cosine;  // of each plane once
  Matrix<float> sine;
  for (Matrix<float>* matrix : {&cosine, &sine}) matrix->resize(rows, f.cols());
  for (std::size_t i = 0; i < f.size(); ++i) {
    cosine.data()[i] = turns.cosine.data()[2 * i];
    sine.data()[i] = turns.sine.data()[2 * i + 1];
    EXPECT_EQ(turns.cosine.data()[2 * i + 1], cosine.data()[i]);
    EXPECT_EQ(turns.sine.data()[2 * i], -sine.data()[i]);
  }
  expect_near(std::as_const(cosine).view(), numbers<double>(fixture.at("cos")), "cos");
  expect_near(std::as_const(sine).view(), numbers<double>(fixture.at("sin")), "sin");
  for (const auto& [from, to] : {std::pair{"q", "q_rot"}, std::pair{"k", "k_rot"}}) {
    for (std::size_t head = 0; head < fixture.at(from).as_array().size(); ++head) {
      auto x = numbers<float>(fixture.at(from).at(head));
      const View<float> view{x.data(), rows, x.size() / rows, x.size() / rows};
      rotate(view, turns, 0);
      expect_near(view, numbers<double>(fixture.at(to).at(head)), to);
    }
  }
}

/// The authors' two layers through Block: five history tokens, no candidate.
TEST(GoldenParts, BlocksMatchTheAuthors) {
  const boost::json::value fixture = read_json("block.json");
  ModelConfig config;
  config.d_model = 8;
  config.heads = 2;
  config.attention_scale = fixture.at("attn_scale").to_number<double>();
  FixtureParameters parameters;
  const boost::json::value residual = {fixture.at("r"), fixture.at("r")};
  for (std::size_t i = 0; i < 2; ++i) {
    const boost::json::value& layer = fixture.at("layers").at(i);
    const std::string prefix = "layers." + std::to_string(i);
    const auto norm = [&](const char* name, const char* from) {
      parameters.add(prefix + name + ".weight", layer.at(from).at("g"), false);
      parameters.add(prefix + name + ".bias", layer.at(from).at("b"), false);
    };
    norm(".norm1", "ln1");
    norm(".norm2", "ln2");
    for (const auto& [name, from] : {std::pair{"query", "W_q"}, std::pair{"key", "W_k"},
                                     std::pair{"value", "W_v"}, std::pair{"output", "W_o"}}) {
      parameters.add(prefix + ".attention." + name + ".weight", layer.at(from), true);
    }
    parameters.add(prefix + ".attention.empty", layer.at("z"), false);
    for (const auto& [name, from] : {std::pair{"0", "ffn1"}, std::pair{"1", "ffn2"}}) {
      parameters.add(prefix + ".feed_forward." + name + ".weight", layer.at(from).at("W"), true);
      parameters.add(prefix + ".feed_forward." + name + ".bias", layer.at(from).at("b"), false);
    }
    parameters.add(prefix + ".residual", residual, false);
  }
  Matrix<float> sine;
  Matrix<float> relu;
  const Matrix<float> f = angles_of(fixture.at("angle_net"), fixture.at("angle_input"),
                                    fixture.at("omega0").to_number<double>(), &sine, &relu);
  expect_near(f.view(), numbers<double>(fixture.at("angle")), "angle");
  const Turns<float> turns =
      turns_of(f, numbers<double>(fixture.at("w")), fixture.at("lambda_").to_number<double>(),
               fixture.at("base").to_number<double>(), 4);

  auto x = numbers<float>(fixture.at("x"));
  auto a = numbers<float>(fixture.at("a"));
  AttentionPlan plan;
  constexpr std::size_t kPadded = padded<float>(5);
  plan.slates.push_back({0, 5, kPadded, {{0, 5, 0, 0, 0}}});
  plan.slate_count = 1;
  plan.weights_size = 2 * 5 * kPadded;
  AttentionScratch<float> scratch;
  AttentionShared<float> shared;
  shared.plan = &plan;
  shared.turns = &turns;
  shared.scratch = &scratch;
  Block<float>::State states[2];
  View<const float> in{x.data(), 5, 8, 8};
  for (std::size_t i = 0; i < 2; ++i) {
    const Block<float> block(config, parameters.layout, "layers." + std::to_string(i));
    block.forward(parameters.dense.data(), in, {a.data(), 5, 8, 8}, shared, states[i]);
    in = states[i].out.view();
    expect_near(in, numbers<double>(fixture.at("after_layer").at(i)), "after_layer");
  }
}

/// The authors' action pooling: every token asks, with the causal mask.
TEST(GoldenParts, PoolingMatchesTheAuthors) {
  const boost::json::value fixture = read_json("block.json");
  const boost::json::value& pool = fixture.at("pool");
  FixtureParameters parameters;
  for (const char* name : {"W_q", "W_k", "W_v", "W_o"}) {
    parameters.add(std::string(name) + ".weight", pool.at(name), true);
  }
  const auto linear = [&](const char* name) { return Linear<float>(parameters.layout, name); };
  Matrix<float> sine;
  Matrix<float> relu;
  const Matrix<float> f = angles_of(fixture.at("action_angle_net"), fixture.at("angle_input"),
                                    fixture.at("omega0").to_number<double>(), &sine, &relu);
  const Turns<float> turns =
      turns_of(f, numbers<double>(fixture.at("w")), fixture.at("lambda_").to_number<double>(),
               fixture.at("base").to_number<double>(), 4);
  auto x = numbers<float>(fixture.at("after_layer").at(1));
  auto a = numbers<float>(fixture.at("a"));
  const auto empty = numbers<float>(pool.at("z"));
  Matrix<float> q;
  Matrix<float> k;
  Matrix<float> v;
  Matrix<float> heads;
  Matrix<float> pooled;
  for (Matrix<float>* matrix : {&q, &k, &v, &heads, &pooled}) matrix->resize(5, 8);
  const View<const float> tokens{x.data(), 5, 8, 8};
  const float* dense = parameters.dense.data();
  linear("W_q").forward(dense, tokens, q.view());
  linear("W_k").forward(dense, tokens, k.view());
  linear("W_v").forward(dense, {a.data(), 5, 8, 8}, v.view());
  rotate(q.view(), turns, 0);
  rotate(k.view(), turns, 0);
  AttentionPlan plan;
  constexpr std::size_t kPadded = padded<float>(5);
  plan.slates.push_back({0, 5, kPadded, {{0, 5, 0, 0, 0}}});
  plan.slate_count = 1;
  plan.weights_size = 2 * 5 * kPadded;
  AttentionScratch<float> scratch;
  AlignedVector<float> weights;
  const Attention<float> attention(2, 8, fixture.at("attn_scale").to_number<double>());
  attention.forward({q.view(), k.view(), v.view(), empty.data(), nullptr}, plan, scratch, weights,
                    heads.view());
  linear("W_o").forward(dense, heads.view(), pooled.view());
  expect_near(std::as_const(pooled).view(), numbers<double>(fixture.at("pooled")), "pooled");
}

}  // namespace
}  // namespace sirenfeed::model
