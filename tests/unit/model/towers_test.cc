// The towers beside the transformer: gradients, the mean, the file.
#include "model/towers.h"

#include <cmath>
#include <random>

#include "model/calibration.h"
#include "model/model_file.h"
#include "model/workspace.h"
#include "tests/unit/model/support.h"

namespace sirenfeed::model {
namespace {

ModelConfig tower_config(std::vector<std::string> towers) {
  ModelConfig config = test::small_config(Variant::kSiren);
  config.towers = std::move(towers);
  config.tower_context_names = {"t0", "t1"};
  return config;
}

std::vector<Slate> tower_slates(const ModelConfig& config, std::size_t count, std::uint64_t seed) {
  std::vector<Slate> slates = test::seeded_slates(config, count, seed);
  std::mt19937_64 random(seed + 1);
  std::normal_distribution<float> normal;
  for (Slate& slate : slates) {
    slate.user = 1 + random() % 4;
    slate.surface = random() % 3;
    slate.context.resize(slate.candidates.size() * config.context_row_width());
    for (float& c : slate.context) c = normal(random);
  }
  return slates;
}

/// Weights for every cross of the slates, so that none is left out.
Model cross_model(const ModelConfig& config, const std::vector<Slate>& slates, std::uint64_t seed) {
  Model model = *make_model(config);
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal(0.0F, 0.3F);
  test::perturb(model, seed);
  for (std::size_t i = 0; i < model.statistics.cross_edges.size(); ++i) {
    model.statistics.cross_edges[i] = static_cast<float>(i % kCrossEdges) * 0.2F - 1.8F;
  }
  if (model.cross.width() == 0) return model;
  const CrossFeatures features(config);
  std::vector<Key> keys;
  for (const Slate& slate : slates) {
    for (std::size_t c = 0; c < slate.candidates.size(); ++c) {
      features.append_keys(model.statistics, slate, c, keys);
    }
  }
  for (const Key key : keys) {
    for (float& weight : model.cross.row_at(model.cross.find_or_create(key))) {
      weight += normal(random);
    }
  }
  return model;
}

std::vector<float> logits_of(const Model& model, const Slate& slate) {
  const auto ranker = make_ranker(model.config);
  Workspace workspace;
  std::vector<float> logits(slate.candidates.size() * model.config.n_tasks());
  EXPECT_TRUE(score(**ranker, model, slate, workspace, logits));
  return logits;
}

TEST(CounterTower, GradientsEqualCentralDifferences) {
  constexpr std::uint64_t kSeed = 41;
  const ModelConfig config = tower_config({"counter"});
  BasicModel<double> model = to_double(*make_model(config));
  std::mt19937_64 random(kSeed);
  std::normal_distribution<double> normal;
  for (double& value : model.dense) value += 0.3 * normal(random);
  const Perceptron<double> tower(model.layout, kCounterTowerPrefix);
  Perceptron<double>::State state;
  state.input.resize(5, tower.in());
  Matrix<double> z;
  z.resize(5, tower.out());
  for (std::size_t i = 0; i < state.input.size(); ++i) state.input.data()[i] = normal(random);
  std::vector<double> d_z;
  for (std::size_t i = 0; i < 5 * config.n_tasks(); ++i) d_z.push_back(normal(random));
  const auto loss = [&] {
    tower.forward(model.dense.data(), state, z.view());
    double total = 0;
    for (std::size_t i = 0; i < d_z.size(); ++i) total += d_z[i] * z.data()[i];
    return total;
  };
  (void)loss();
  std::vector<double> gradient(model.layout.size);
  tower.backward(model.dense.data(), state, {d_z.data(), 5, config.n_tasks(), config.n_tasks()},
                 gradient.data(), {});
  std::size_t tensors = 0;
  for (const TensorSpec& spec : model.layout.tensors) {
    const auto g = std::span(gradient).subspan(spec.offset, spec.size);
    double largest = 0;
    for (const double value : g) largest = std::max(largest, std::abs(value));
    if (!spec.name.starts_with("counter.")) {
      EXPECT_EQ(largest, 0) << spec.name;
      continue;
    }
    ++tensors;
    ASSERT_GT(largest, 0) << spec.name;
    for (std::size_t n = 0; n < std::min<std::size_t>(spec.size, 40); ++n) {
      const std::size_t i = spec.size <= 40 ? n : random() % spec.size;
      double& element = model.dense[spec.offset + i];
      const double before = element;
      element = before + 1e-5;
      const double up = loss();
      element = before - 1e-5;
      const double down = loss();
      element = before;
      const double numeric = (up - down) / 2e-5;
      EXPECT_TRUE(std::abs(g[i] - numeric) <= 1e-6 * std::max(std::abs(numeric), largest))
          << spec.name << "[" << i << "] " << g[i] << " instead of " << numeric << ", seed "
          << kSeed;
    }
  }
  EXPECT_EQ(tensors, 6U);
}

TEST(Towers, TheServedLogitIsTheCalibratedMean) {
  const ModelConfig config = tower_config({"counter", "cross"});
  const std::vector<Slate> slates = tower_slates(config, 5, 3);
  const Model model = cross_model(config, slates, 9);
  const auto ranker = make_ranker(config);
  Workspace workspace;
  for (const Slate& slate : slates) {
    const Slate* const one = &slate;
    const std::span chunk(&one, 1);
    const auto z = (*ranker)->forward(model, chunk, workspace);
    const std::vector<float> transformer(z.begin(), z.end());
    const TowerLogits<float> towers = (*ranker)->tower_logits(model, chunk, workspace);
    const std::vector<float> served = logits_of(model, slate);
    for (std::size_t i = 0; i < transformer.size(); ++i) {
      const double mean =
          (static_cast<double>(transformer[i]) + towers.counter[i] + towers.cross[i]) / 3;
      EXPECT_NEAR(towers.mean[i], mean, 1e-5);
      EXPECT_NEAR(served[i], calibrated(model.calibration, i % 3, towers.mean[i]), 1e-5);
      EXPECT_NE(towers.counter[i], 0);
      EXPECT_NE(towers.cross[i], 0);
    }
  }
}

TEST(Towers, ATaskThatIsLeftOutKeepsTheTransformersLogit) {
  ModelConfig config = tower_config({"counter"});
  config.tower_tasks = {"click", "long_view"};
  const std::vector<Slate> slates = tower_slates(config, 1, 3);
  const Model model = cross_model(config, slates, 9);
  const auto ranker = make_ranker(config);
  Workspace workspace;
  const Slate* const one = &slates[0];
  const auto z = (*ranker)->forward(model, std::span(&one, 1), workspace);
  const std::vector<float> transformer(z.begin(), z.end());
  const TowerLogits<float> towers = (*ranker)->tower_logits(model, std::span(&one, 1), workspace);
  for (std::size_t i = 0; i < transformer.size(); ++i) {
    const float expected = i % 3 == 2 ? transformer[i] : (transformer[i] + towers.counter[i]) / 2;
    EXPECT_FLOAT_EQ(towers.mean[i], expected) << i;
  }
  config.tower_tasks = {"share"};
  EXPECT_FALSE(make_model(config));
}

TEST(Towers, ACandidatesLogitsDoNotDependOnTheOthers) {
  const ModelConfig config = tower_config({"counter", "cross"});
  const std::vector<Slate> slates = tower_slates(config, 6, 5);
  const Model model = cross_model(config, slates, 11);
  const std::size_t width = config.context_row_width();
  for (const Slate& slate : slates) {
    const std::vector<float> together = logits_of(model, slate);
    for (std::size_t c = 0; c < slate.candidates.size(); ++c) {
      Slate alone = slate;
      alone.candidates = {slate.candidates[c]};
      alone.context.assign(slate.context.begin() + static_cast<std::ptrdiff_t>(c * width),
                           slate.context.begin() + static_cast<std::ptrdiff_t>((c + 1) * width));
      const std::vector<float> own = logits_of(model, alone);
      for (std::size_t k = 0; k < 3; ++k) EXPECT_EQ(own[k], together[3 * c + k]);
    }
  }
}

TEST(Towers, TheTransformerReadsNoTowerFeature) {
  const ModelConfig config = tower_config({"counter"});
  const std::vector<Slate> slates = tower_slates(config, 1, 2);
  const Model model = cross_model(config, slates, 4);
  const auto ranker = make_ranker(config);
  Workspace workspace;
  Slate slate = slates[0];
  const auto forward = [&] {
    const Slate* const one = &slate;
    const auto z = (*ranker)->forward(model, std::span(&one, 1), workspace);
    return std::vector<float>(z.begin(), z.end());
  };
  const std::vector<float> before = forward();
  const std::vector<float> served = logits_of(model, slate);
  slate.context[4] += 1.0F;  // t1 of the first candidate
  EXPECT_EQ(forward(), before);
  EXPECT_NE(logits_of(model, slate)[0], served[0]);
}

TEST(Towers, TheFileGivesBackTowersAndKnots) {
  ModelConfig config = tower_config({"counter", "cross"});
  config.isotonic_knots = 5;
  const std::vector<Slate> slates = tower_slates(config, 4, 7);
  Model model = cross_model(config, slates, 13);
  model.calibration.knot_y[1] += 0.5F;
  const std::string bytes = encode_model(model);
  const auto read = decode_model(bytes);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(encode_model(*read), bytes);
  for (const Slate& slate : slates) EXPECT_EQ(logits_of(*read, slate), logits_of(model, slate));
  model.calibration.knot_y[1] = model.calibration.knot_y[2];
  const auto refused = decode_model(encode_model(model));
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("knots"), std::string::npos);
}

TEST(Towers, AnUnknownTowerIsNamed) {
  ModelConfig config = tower_config({"counter", "bell"});
  const auto refused = make_model(config);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("bell"), std::string::npos);
  config.towers = {"counter"};
  config.context_names.clear();
  config.tower_context_names.clear();
  EXPECT_FALSE(make_model(config));
}

TEST(CrossFeatures, UnknownPartsHaveNoCrosses) {
  ModelConfig config = tower_config({"cross"});
  config.context_names = {"item.duration"};
  config.tower_context_names.clear();
  const CrossFeatures features(config);
  Statistics statistics;
  statistics.cross_edges.assign(kCrossEdges, 0.0F);
  Slate slate;
  slate.candidates = {ItemRef{5, 6, 0, 0}};
  slate.context = {0.0F};
  const auto count = [&] {
    std::vector<Key> keys;
    features.append_keys(statistics, slate, 0, keys);
    for (const Key key : keys) EXPECT_LT(key, Key{1} << kCrossBits);
    return keys.size();
  };
  EXPECT_EQ(count(), 8U + 2 + 1);  // neither user nor time
  slate.user = 9;
  EXPECT_EQ(count(), 8U + 3 + 3 + 1);
  slate.time_ms = -1;
  EXPECT_EQ(count(), 8U + 3 + 3 + 3 + 1);
}

TEST(Calibration, KnotsAreLinearBetweenAndOfSlopeOneBeyond) {
  Calibration calibration{
      .scale = {1.0F}, .bias = {0.0F}, .knot_x = {-1, 0, 2}, .knot_y = {-3, 0, 1}};
  EXPECT_DOUBLE_EQ(calibrated(calibration, 0, -2), -4);
  EXPECT_DOUBLE_EQ(calibrated(calibration, 0, -0.5), -1.5);
  EXPECT_DOUBLE_EQ(calibrated(calibration, 0, 0), 0);
  EXPECT_DOUBLE_EQ(calibrated(calibration, 0, 1), 0.5);
  EXPECT_DOUBLE_EQ(calibrated(calibration, 0, 2), 1);
  EXPECT_DOUBLE_EQ(calibrated(calibration, 0, 5), 4);
  ModelConfig config = tower_config({});
  config.isotonic_knots = 9;
  const Calibration identity = identity_calibration(config);
  EXPECT_TRUE(knots_ascend(identity));
  for (double z = -20; z < 20; z += 0.37) EXPECT_NEAR(calibrated(identity, 2, z), z, 1e-12);
}

}  // namespace
}  // namespace sirenfeed::model
