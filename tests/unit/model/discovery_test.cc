#include "model/discovery.h"

#include <cmath>

#include "tests/unit/model/support.h"

namespace sirenfeed::model {
namespace {

TEST(Discovery, AGateIsExactlyClosedAndExactlyOpenAtItsEnds) {
  EXPECT_EQ(gate_of(-0.7), 0.0);
  EXPECT_EQ(gate_of(0.7), 1.0);
  EXPECT_EQ(gate_slope(-0.7), 0.0);
  EXPECT_EQ(gate_slope(0.7), 0.0);
  EXPECT_NEAR(gate_of(0.0), 0.5, 1e-15);
  constexpr double kStep = 1e-6;
  for (const double a : {-0.55, -0.2, 0.0, 0.3, 0.59}) {
    EXPECT_NEAR(gate_slope(a), (gate_of(a + kStep) - gate_of(a - kStep)) / (2 * kStep), 1e-8) << a;
  }
}

TEST(Discovery, ThePenaltysGradientEqualsCentralDifferences) {
  BasicModel<double> model = to_double(*make_model(test::small_config(Variant::kSirenDiscovery)));
  test::perturb(model, 5);
  constexpr double kStep = 1e-5;
  std::vector<double> gradient(model.dense.size(), 0.0);
  (void)add_gate_penalty<double>(model, 0.3, gradient);
  std::vector<double> ignored(model.dense.size(), 0.0);
  std::size_t moved = 0;
  for (std::size_t i = 0; i < model.dense.size(); ++i) {
    const double before = model.dense[i];
    model.dense[i] = before + kStep;
    const double up = add_gate_penalty<double>(model, 0.3, ignored);
    model.dense[i] = before - kStep;
    const double down = add_gate_penalty<double>(model, 0.3, ignored);
    model.dense[i] = before;
    EXPECT_NEAR(gradient[i], (up - down) / (2 * kStep), 1e-9) << i;
    moved += gradient[i] != 0 ? 1 : 0;
  }
  EXPECT_EQ(moved, kSignalCount);
}

TEST(Discovery, ReportsEverySignalWithItsGate) {
  Model model = *make_model(test::small_config(Variant::kSirenDiscovery));
  model.tensor("rotary.gate")[static_cast<std::size_t>(Signal::kAuthor)] = -2.0F;
  model.tensor("rotary.gate")[static_cast<std::size_t>(Signal::kHour)] = 2.0F;
  const std::vector<DiscoveredSignal> signals = discovered_signals(model);
  ASSERT_EQ(signals.size(), kSignalCount);
  const std::vector<std::string> names = {"hour",    "weekday", "age",    "topic",
                                          "segment", "author",  "surface"};
  for (std::size_t s = 0; s < kSignalCount; ++s) {
    EXPECT_EQ(signals[s].name, names[s]);
    EXPECT_EQ(signals[s].kept, names[s] != "author");
  }
  EXPECT_EQ(signals[0].gate, 1.0);
  EXPECT_EQ(signals[5].gate, 0.0);
  EXPECT_TRUE(discovered_signals(*make_model(test::small_config(Variant::kSiren))).empty());
}

TEST(Discovery, AClosedGateTakesItsSignalOutOfTheScores) {
  const ModelConfig config = test::small_config(Variant::kSirenDiscovery);
  const auto scores = [&](float author_gate, float surface_gate, bool other) {
    Model model = *make_model(config);
    test::perturb(model, 6);
    const std::span<float> gates = model.tensor("rotary.gate");
    std::fill(gates.begin(), gates.end(), 2.0F);
    gates[static_cast<std::size_t>(Signal::kAuthor)] = author_gate;
    gates[static_cast<std::size_t>(Signal::kSurface)] = surface_gate;
    auto slates = test::seeded_slates(config, 8, 7);
    for (Slate& slate : slates) {
      for (HistoryToken& token : slate.history) {
        if (other) token.surface = token.surface == 1 ? 2 : 1;
      }
    }
    if (other) {
      for (Key key = 1; key <= 8; ++key) {
        model.table(TableId::kSemanticAuthor)
            .row_at(model.table(TableId::kSemanticAuthor).find_or_create(key))[0] += 1.0F;
      }
    }
    const auto ranker = *make_ranker(config);
    Workspace workspace;
    const auto z = ranker->forward(model, test::pointers(slates), workspace);
    return std::vector<float>(z.begin(), z.end());
  };
  EXPECT_EQ(scores(-2, -2, false), scores(-2, -2, true));
  EXPECT_NE(scores(2, -2, false), scores(2, -2, true));
  EXPECT_NE(scores(-2, 2, false), scores(-2, 2, true));
}

}  // namespace
}  // namespace sirenfeed::model
