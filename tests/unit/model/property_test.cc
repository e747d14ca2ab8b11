// What must hold for every model of the family, whatever its weights.
#include <cmath>
#include <limits>

#include "model/ranker.h"
#include "model/workspace.h"
#include "tests/unit/model/support.h"

namespace sirenfeed::model {
namespace {

struct Scorer {
  explicit Scorer(Model m) : model(std::move(m)), ranker(*make_ranker(model.config)) {}

  std::vector<float> forward(const std::vector<Slate>& slates) {
    const auto z = ranker->forward(model, test::pointers(slates), workspace);
    return {z.begin(), z.end()};
  }

  Model model;
  std::unique_ptr<const Ranker> ranker;
  Workspace workspace;
};

ModelConfig wide_config(Variant variant) {
  ModelConfig config = test::small_config(variant);
  config.d_model = 32;
  config.layers = 2;
  config.angle_width = 16;
  config.history_max = 40;
  return config;
}

Model perturbed(const ModelConfig& config, std::uint64_t seed, double sigma = 0.3) {
  Model model = *make_model(config);
  test::perturb(model, seed, sigma);
  return model;
}

std::string variant_of(const testing::TestParamInfo<Variant>& info) {
  return variant_name(info.param);
}

class StepZero : public testing::TestWithParam<Variant> {};

TEST_P(StepZero, EqualsOrdinal) {
  for (const bool per_layer : {false, true}) {
    ModelConfig config = wide_config(GetParam());
    config.per_layer_angles = per_layer;
    Scorer variant(*make_model(config));
    Scorer ordinal(*make_model(wide_config(Variant::kOrdinal)));
    const auto slates = test::seeded_slates(config, 12, 13, 60, 4);
    const std::vector<float> expected = ordinal.forward(slates);
    EXPECT_EQ(variant.forward(slates), expected);
    // Not because nothing matters: the paper's starts turn the tokens.
    config.paper_init = true;
    EXPECT_EQ(Scorer(*make_model(config)).forward(slates) == expected, false);
  }
}

INSTANTIATE_TEST_SUITE_P(Property, StepZero,
                         testing::Values(Variant::kSiren, Variant::kSirenTemporal,
                                         Variant::kSirenSemantic, Variant::kSirenSineOnly,
                                         Variant::kSirenReluOnly, Variant::kSirenTimeBias,
                                         Variant::kSirenHierarchical, Variant::kSirenDiscovery),
                         variant_of);

class AnyModel : public testing::TestWithParam<Variant> {};
INSTANTIATE_TEST_SUITE_P(Property, AnyModel, testing::ValuesIn(all_variants()), variant_of);

TEST_P(AnyModel, AConstantAddedToEveryPositionChangesNoLogit) {
  constexpr std::uint64_t kSeed = 31;
  const ModelConfig config = wide_config(GetParam());
  Scorer scorer(perturbed(config, kSeed, 0.1));
  const auto slates = test::seeded_slates(config, 12, kSeed, 60, 4);
  const std::vector<float> before = scorer.forward(slates);
  for (const std::uint32_t origin : {1U, 77U, 1'000U, 100'000U}) {
    scorer.workspace.impl().position_origin = origin;
    const std::vector<float> after = scorer.forward(slates);
    ASSERT_EQ(after.size(), before.size());
    for (std::size_t i = 0; i < before.size(); ++i) {
      EXPECT_TRUE(std::abs(after[i] - before[i]) <= 1e-5F)
          << "origin " << origin << " logit " << i << ": " << after[i] << " instead of "
          << before[i] << " (seed " << kSeed << ")";
    }
  }
}

TEST(Position, ADifferentDistanceDoesChangeLogits) {
  Scorer scorer(perturbed(wide_config(Variant::kOrdinal), 31, 0.1));
  auto slates = test::seeded_slates(scorer.model.config, 4, 31, 60, 4);
  const std::vector<float> before = scorer.forward(slates);
  for (double base : {50.0, 2.0}) {
    ModelConfig config = scorer.model.config;
    config.base = base;
    Scorer other(perturbed(config, 31, 0.1));
    EXPECT_NE(other.forward(slates), before);
  }
}

/// Rows [0, count) of x after every layer.
std::vector<std::vector<float>> layer_rows(Scorer& scorer, std::size_t count) {
  std::vector<std::vector<float>> rows;
  for (const auto& layer : scorer.workspace.impl().layers) {
    rows.emplace_back(layer.out.data(), layer.out.data() + count * layer.out.cols());
  }
  return rows;
}

TEST_P(AnyModel, ATokenNeverInfluencesAnEarlierOne) {
  constexpr std::uint64_t kSeed = 32;
  const ModelConfig config = wide_config(GetParam());
  Scorer scorer(perturbed(config, kSeed));
  std::vector<Slate> slates = test::seeded_slates(config, 1, kSeed, 30, 3);
  while (slates[0].history.size() < 12) slates[0].history.push_back(slates[0].history.front());
  const std::size_t tokens = slates[0].history.size();
  for (const std::size_t changed : {tokens - 1, tokens / 2, std::size_t{1}}) {
    std::vector<Slate> other = slates;
    HistoryToken& token = other[0].history[changed];
    token.item.item = token.item.item == 2 ? 3 : 2;  // both have rows
    token.item.author = 3 - token.item.author % 3;
    token.time_ms = 1'650'812'000'000;
    token.action_bits ^= 5;
    token.surface = 7;
    (void)scorer.forward(slates);
    const auto before = layer_rows(scorer, changed);
    const auto all_before = layer_rows(scorer, tokens);
    (void)scorer.forward(other);
    EXPECT_EQ(layer_rows(scorer, changed), before) << "token " << changed;
    EXPECT_NE(layer_rows(scorer, tokens), all_before) << "token " << changed;

    // Its own actions are not known to itself either, whoever comes after.
    std::vector<Slate> acted = slates;
    acted[0].history[changed].action_bits ^= 7;
    (void)scorer.forward(slates);
    const auto own = layer_rows(scorer, changed + 1);
    (void)scorer.forward(acted);
    EXPECT_EQ(layer_rows(scorer, changed + 1), own) << "token " << changed;
  }
}

TEST_P(AnyModel, OtherCandidatesDoNotInfluenceACandidate) {
  const ModelConfig config = wide_config(GetParam());
  Scorer scorer(perturbed(config, 33));
  for (const Slate& slate : test::seeded_slates(config, 6, 33, 30, 6)) {
    const std::vector<float> together = scorer.forward({slate});
    const std::size_t n_context = config.n_context();
    for (std::size_t c = 0; c < slate.candidates.size(); ++c) {
      Slate alone = slate;
      alone.candidates = {slate.candidates[c]};
      alone.context.assign(
          slate.context.begin() + static_cast<std::ptrdiff_t>(c * n_context),
          slate.context.begin() + static_cast<std::ptrdiff_t>((c + 1) * n_context));
      const std::vector<float> z = scorer.forward({alone});
      for (std::size_t k = 0; k < z.size(); ++k) {
        EXPECT_EQ(z[k], together[c * z.size() + k]) << c;
      }
    }
  }
}

/// One request per case, by name.
std::vector<std::pair<std::string, Slate>> edge_slates(const ModelConfig& config) {
  const Slate plain = [&] {
    Slate slate = test::seeded_slates(config, 1, 34, 8, 3)[0];
    while (slate.history.size() < 5) slate.history.push_back(slate.history.front());
    return slate;
  }();
  const auto at = [&](std::int64_t time_ms, std::int64_t gap_ms) {
    Slate slate = plain;
    slate.time_ms = time_ms;
    for (std::size_t i = 0; i < slate.history.size(); ++i) {
      slate.history[i].time_ms =
          time_ms - gap_ms * static_cast<std::int64_t>(slate.history.size() - i);
    }
    return slate;
  };
  std::vector<std::pair<std::string, Slate>> slates = {
      {"before 1970", at(-3'000'000'000'000, 86'400'000)},
      {"across 1970", at(2, 1)},
      {"after 2100", at(4'200'000'000'000, 3'600'000)},
      {"the last millisecond", at(std::numeric_limits<std::int64_t>::max(), 1)},
      {"the first millisecond", at(std::numeric_limits<std::int64_t>::min() + 1'000, 1)},
      {"gaps of 0 ms", at(1'650'812'741'436, 0)},
      {"a gap of 200 years", at(4'200'000'000'000, 1'600'000'000'000)},
      {"no time at all", at(0, 0)},
      {"one token", at(1'650'812'741'436, 1'000)},
      {"no history", plain},
  };
  for (HistoryToken& token : slates[7].second.history) token.time_ms = kUnknownTime;
  slates[7].second.time_ms = kUnknownTime;
  slates[8].second.history.resize(1);
  slates[9].second.history.clear();
  return slates;
}

TEST_P(AnyModel, ScoresAndGradientsAreFiniteAtTheEdgesOfTime) {
  const ModelConfig config = wide_config(GetParam());
  Scorer scorer(perturbed(config, 34));
  ChunkGradient gradient;
  for (const auto& [name, slate] : edge_slates(config)) {
    const std::vector<float> z = scorer.forward({slate});
    ASSERT_FALSE(z.empty());
    for (const float value : z) EXPECT_TRUE(std::isfinite(value)) << name;
    scorer.ranker->backward(scorer.model, scorer.workspace, z, gradient);
    for (const float value : gradient.dense) ASSERT_TRUE(std::isfinite(value)) << name;
    for (const auto& table : gradient.tables) {
      for (const float value : table.rows) ASSERT_TRUE(std::isfinite(value)) << name;
    }
  }
}

TEST(TimesOfTokens, AWholeNumberOfWeeksMovesOnlyTheAge) {
  // Integers first: a hundred years later the hour is still exact. Age is clamped on both sides.
  ModelConfig config = wide_config(Variant::kSirenTemporal);
  config.time_reference_ms = 0;
  Scorer scorer(perturbed(config, 35));
  auto slates = test::seeded_slates(config, 5, 35, 20, 3);
  const std::vector<float> before = scorer.forward(slates);
  constexpr std::int64_t kWeeks = 5'200LL * 604'800'000;
  for (Slate& slate : slates) {
    if (slate.time_ms != kUnknownTime) slate.time_ms += kWeeks;
    for (HistoryToken& token : slate.history) {
      if (token.time_ms != kUnknownTime) token.time_ms += kWeeks;
    }
  }
  EXPECT_EQ(scorer.forward(slates), before);
}

TEST(HistoryOfActions, EqualsTheHistoryWithoutTheOthers) {
  ModelConfig config = test::small_config(Variant::kSiren);
  config.history_max = 4;
  config.history_kind = HistoryKind::kActions;
  Scorer actions(perturbed(config, 36));
  config.history_kind = HistoryKind::kExposures;
  Scorer exposures(perturbed(config, 36));
  const auto slates = test::seeded_slates(config, 12, 36, 20, 3);
  std::vector<Slate> picked = slates;
  std::size_t left_out = 0;
  for (Slate& slate : picked) {
    left_out +=
        std::erase_if(slate.history, [](const HistoryToken& t) { return t.action_bits == 0; });
  }
  ASSERT_GT(left_out, 0U);
  const std::vector<float> expected = exposures.forward(picked);
  EXPECT_EQ(actions.forward(slates), expected);
  EXPECT_EQ(actions.forward(picked), expected);  // leaving out twice is leaving out once
  EXPECT_NE(exposures.forward(slates), expected);
}

TEST(PaperInit, StartsTheLastLayersAsDocumented) {
  ModelConfig config = test::small_config(Variant::kSiren);
  config.paper_init = true;
  const Model model = *make_model(config);
  const auto bound_of = [&](const std::string& name) {
    double largest = 0;
    for (const float value : model.tensor(name)) {
      largest = std::max(largest, std::abs(static_cast<double>(value)));
    }
    return largest;
  };
  const double m = config.angle_width;
  for (const char* path : {"rotary.temporal.sine.2", "rotary.semantic.sine.2"}) {
    const double bound = std::sqrt(6.0 / m) / config.omega0;
    EXPECT_GT(bound_of(std::string(path) + ".weight"), 0.2 * bound);
    EXPECT_LE(bound_of(std::string(path) + ".weight"), bound);
    EXPECT_LE(bound_of(std::string(path) + ".bias"), 1 / std::sqrt(m));
  }
  EXPECT_GT(bound_of("rotary.temporal.relu.2.weight"), 0.2 / std::sqrt(m));
  EXPECT_LE(bound_of("rotary.temporal.relu.2.weight"), 1 / std::sqrt(m));
}

TEST(FixedWeights, AreNotTrainedButHaveAGradient) {
  ModelConfig config = test::small_config(Variant::kSiren);
  config.lambda_learned = false;
  config.omega_learned = false;
  const ParameterLayout layout = make_layout(config);
  for (const TensorSpec& spec : layout.tensors) {
    const bool fixed = spec.name == "rotary.lambda" || spec.name == "rotary.omega" ||
                       spec.name == "rotary.omega_semantic" || spec.name == "layers.0.residual";
    EXPECT_EQ(spec.trained, !fixed) << spec.name;
  }
}

}  // namespace
}  // namespace sirenfeed::model
