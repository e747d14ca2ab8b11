#include "model/ranker.h"

#include <algorithm>
#include <cmath>

#include "tests/unit/model/support.h"

namespace sirenfeed::model {
namespace {

struct Scorer {
  explicit Scorer(Model m) : model(std::move(m)), ranker(*make_ranker(model.config)) {}

  std::vector<float> forward(const std::vector<const Slate*>& chunk) {
    const auto z = ranker->forward(model, chunk, workspace);
    return {z.begin(), z.end()};
  }
  std::vector<float> logits(const Slate& slate) {
    std::vector<float> out(slate.candidates.size() * model.config.n_tasks());
    EXPECT_TRUE(score(*ranker, model, slate, workspace, out));
    return out;
  }

  Model model;
  std::unique_ptr<const Ranker> ranker;
  Workspace workspace;
};

Model perturbed(const ModelConfig& config, std::uint64_t seed) {
  Model model = *make_model(config);
  test::perturb(model, seed);
  return model;
}

/// The default shape, where vector tails and blocks of several sizes occur.
ModelConfig wide_config(Variant variant) {
  ModelConfig config = test::small_config(variant);
  config.d_model = 32;
  config.angle_width = 16;
  config.history_max = 40;
  return config;
}

Slate with_candidates(const Slate& slate, const std::vector<std::size_t>& picked,
                      std::size_t n_context) {
  Slate part = slate;
  part.candidates.clear();
  part.context.clear();
  for (const std::size_t c : picked) {
    part.candidates.push_back(slate.candidates[c]);
    const auto from = slate.context.begin() + static_cast<std::ptrdiff_t>(c * n_context);
    part.context.insert(part.context.end(), from, from + static_cast<std::ptrdiff_t>(n_context));
  }
  return part;
}

TEST(Ranker, SplittingASlateChangesNoBit) {
  constexpr std::uint64_t kSeed = 11;
  for (const Variant variant : {Variant::kSiren, Variant::kOrdinal}) {
    Scorer scorer(perturbed(wide_config(variant), kSeed));
    const ModelConfig& config = scorer.model.config;
    const auto slates = test::seeded_slates(config, 6, kSeed, 60, 21);
    for (const Slate& slate : slates) {
      const std::vector<float> whole = scorer.logits(slate);
      for (const std::size_t step : {1U, 2U, 3U, 7U}) {
        for (std::size_t first = 0; first < slate.candidates.size(); first += step) {
          std::vector<std::size_t> picked;
          for (std::size_t c = first; c < std::min(first + step, slate.candidates.size()); ++c) {
            picked.push_back(c);
          }
          const auto part = scorer.logits(with_candidates(slate, picked, config.n_context()));
          const std::size_t n_tasks = config.n_tasks();
          for (std::size_t i = 0; i < part.size(); ++i) {
            ASSERT_EQ(part[i], whole[first * n_tasks + i])
                << "step " << step << " candidate " << first << " seed " << kSeed;
          }
        }
      }
    }
  }
}

TEST(Ranker, ASlatesScoresDoNotDependOnItsChunk) {
  constexpr std::uint64_t kSeed = 12;
  Scorer scorer(perturbed(wide_config(Variant::kSiren), kSeed));
  const auto slates = test::seeded_slates(scorer.model.config, 9, kSeed, 50, 5);
  const std::vector<float> together = scorer.forward(test::pointers(slates));
  std::vector<float> alone;
  for (const Slate& slate : slates) {
    for (const float z : scorer.forward({&slate})) alone.push_back(z);
  }
  EXPECT_EQ(together, alone);
}

TEST(Ranker, InferringGivesTheBitsOfForward) {
  constexpr std::uint64_t kSeed = 14;
  for (const Variant variant : {Variant::kSiren, Variant::kOrdinal, Variant::kNone,
                                Variant::kSirenTimeBias, Variant::kTimeEmbedding}) {
    ModelConfig config = wide_config(variant);
    config.layers = 2;
    config.history_max = 190;  // several tiles of history, and of candidates
    Scorer scorer(perturbed(config, kSeed));
    const auto slates = test::seeded_slates(config, 7, kSeed, 200, 120);
    const std::vector<float> want = scorer.forward(test::pointers(slates));
    const auto chunk = test::pointers(slates);
    const auto z = scorer.ranker->infer(scorer.model, chunk, scorer.workspace);
    EXPECT_EQ(std::vector<float>(z.begin(), z.end()), want) << variant_name(variant);
  }
}

TEST(Ranker, SirenEqualsOrdinalAtTheStart) {
  constexpr std::uint64_t kSeed = 13;
  Scorer siren(*make_model(wide_config(Variant::kSiren)));
  Scorer ordinal(*make_model(wide_config(Variant::kOrdinal)));
  const auto slates = test::seeded_slates(siren.model.config, 12, kSeed, 60, 4);
  const std::vector<float> a = siren.forward(test::pointers(slates));
  const std::vector<float> b = ordinal.forward(test::pointers(slates));
  EXPECT_EQ(a, b);
  // Not because nothing matters: another base turns the tokens elsewhere.
  ModelConfig other = wide_config(Variant::kOrdinal);
  other.base = 10;
  EXPECT_NE(Scorer(*make_model(other)).forward(test::pointers(slates)), b);
}

TEST(Ranker, MakingARowChangesNoScore) {
  Scorer scorer(*make_model(wide_config(Variant::kSiren)));
  const auto slates = test::seeded_slates(scorer.model.config, 8, 14);
  const std::vector<float> before = scorer.forward(test::pointers(slates));
  for (EmbeddingTable& table : scorer.model.tables) {
    for (Key key = 1; key < 12; key += 2) table.find_or_create(key);
  }
  EXPECT_EQ(scorer.forward(test::pointers(slates)), before);
}

TEST(Ranker, OnlyTheNewestHistoryCounts) {
  Scorer scorer(perturbed(test::small_config(Variant::kSiren), 15));
  auto slates = test::seeded_slates(scorer.model.config, 1, 16, 9, 3);
  Slate& slate = slates[0];
  while (slate.history.size() < 9) slate.history.push_back(slate.history.front());
  Slate cut = slate;
  cut.history.erase(cut.history.begin(), cut.history.begin() + 3);  // history_max is 6
  EXPECT_EQ(scorer.logits(slate), scorer.logits(cut));
  cut.history.erase(cut.history.begin());
  EXPECT_NE(scorer.logits(slate), scorer.logits(cut));
}

TEST(Ranker, ContextCountsOnlyOnceStatisticsAreWarm) {
  Model model = perturbed(test::small_config(Variant::kSiren), 17);
  model.statistics.context_examples = kContextExamplesMin - 1;
  Scorer cold(model);
  const auto slates = test::seeded_slates(model.config, 1, 18);
  Slate other = slates[0];
  for (float& value : other.context) value += 1.0F;
  EXPECT_EQ(cold.logits(slates[0]), cold.logits(other));
  model.statistics.context_examples = kContextExamplesMin;
  Scorer warm(model);
  EXPECT_NE(warm.logits(slates[0]), warm.logits(other));
}

TEST(Ranker, RefusesContextThatIsNotFiniteOrOfAnotherLength) {
  Scorer scorer(*make_model(test::small_config(Variant::kSiren)));
  auto slates = test::seeded_slates(scorer.model.config, 1, 19);
  Slate& slate = slates[0];
  std::vector<float> logits(slate.candidates.size() * scorer.model.config.n_tasks());
  slate.context[1] = std::numeric_limits<float>::quiet_NaN();
  const auto refused = score(*scorer.ranker, scorer.model, slate, scorer.workspace, logits);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("c1"), std::string::npos) << refused.error().message;
  slate.context.pop_back();
  EXPECT_FALSE(score(*scorer.ranker, scorer.model, slate, scorer.workspace, logits));
}

TEST(Ranker, GradientRowsAreDistinctAndOfTheKeysInUse) {
  Scorer scorer(perturbed(wide_config(Variant::kSiren), 20));
  const auto slates = test::seeded_slates(scorer.model.config, 6, 21);
  const auto chunk = test::pointers(slates);
  const std::vector<float> z = scorer.forward(chunk);
  ChunkGradient gradient;
  scorer.ranker->backward(scorer.model, scorer.workspace, z, gradient);
  for (std::size_t t = 0; t < kTableCount; ++t) {
    std::vector<Key> keys = gradient.tables[t].keys;
    ASSERT_EQ(keys.empty(), scorer.model.tables[t].width() == 0);
    EXPECT_EQ(gradient.tables[t].rows.size(), keys.size() * scorer.model.tables[t].width());
    const bool none = t == static_cast<std::size_t>(TableId::kTag) ||
                      t == static_cast<std::size_t>(TableId::kAuthor);
    EXPECT_EQ(std::count(keys.begin(), keys.end(), kNoKey), none ? 1 : 0) << t;
    std::sort(keys.begin(), keys.end());
    EXPECT_EQ(std::unique(keys.begin(), keys.end()), keys.end());
  }
}

TEST(Ranker, ReusedWorkspacesGiveTheSameBytes) {
  constexpr std::uint64_t kSeed = 22;
  Scorer scorer(perturbed(wide_config(Variant::kSiren), kSeed));
  const auto small = test::seeded_slates(scorer.model.config, 3, kSeed);
  const auto large = test::seeded_slates(scorer.model.config, 9, kSeed + 1, 60, 20);
  const auto gradient_of = [&](Workspace& workspace, const std::vector<Slate>& slates) {
    const auto chunk = test::pointers(slates);
    const auto z = scorer.ranker->forward(scorer.model, chunk, workspace);
    const std::vector<float> d_z(z.begin(), z.end());
    ChunkGradient gradient;
    scorer.ranker->backward(scorer.model, workspace, d_z, gradient);
    return gradient;
  };
  Workspace fresh;
  const ChunkGradient first = gradient_of(fresh, small);
  Workspace used;
  (void)gradient_of(used, large);
  const ChunkGradient again = gradient_of(used, small);
  EXPECT_EQ(first.dense, again.dense);
  for (std::size_t t = 0; t < kTableCount; ++t) {
    EXPECT_EQ(first.tables[t].keys, again.tables[t].keys);
    EXPECT_EQ(first.tables[t].rows, again.tables[t].rows);
  }
}

TEST(Ranker, ShiftingTheTimeReferenceKeepsScores) {
  for (const Variant variant : all_variants()) {
    ModelConfig config = test::small_config(variant);
    config.per_layer_angles = variant == Variant::kSirenAlibiTime;
    Model model = perturbed(config, 23);
    auto slates = test::seeded_slates(model.config, 5, 24);
    for (Slate& slate : slates) {  // time_embedding adds b without a time, which the shift changes
      if (slate.time_ms == kUnknownTime) slate.time_ms = model.config.time_reference_ms;
      for (HistoryToken& token : slate.history) token.time_ms = slate.time_ms - 1000;
    }
    const std::vector<float> before = Scorer(model).forward(test::pointers(slates));
    const std::int64_t half = model.config.time_span_ms / 2;
    const std::int64_t reference = model.config.time_reference_ms;
    EXPECT_EQ(shift_time_reference(model, reference + half), 0);
    EXPECT_EQ(shift_time_reference(model, reference + half + 1), 1);
    EXPECT_EQ(model.config.time_reference_ms, reference + half);
    const std::vector<float> after = Scorer(model).forward(test::pointers(slates));
    for (std::size_t i = 0; i < before.size(); ++i) {
      EXPECT_TRUE(std::abs(before[i] - after[i]) <= 1e-4F) << variant_name(variant) << " " << i;
    }
  }
}

}  // namespace
}  // namespace sirenfeed::model
