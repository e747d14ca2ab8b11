// MODEL.md's check: hand-written gradients against central differences in double precision.
#include <cmath>
#include <functional>
#include <map>

#include "model/ranker.h"
#include "model/workspace.h"
#include "tests/unit/model/support.h"

namespace sirenfeed::model {
namespace {

constexpr double kStep = 1e-5;
constexpr double kTolerance = 1e-6;
constexpr double kFlipShareMax = 0.02;
constexpr std::size_t kElementsPerTensor = 16;

// A turn that all tokens share cancels between query and key, so that this bias has no gradient but
// rounding. (The temporal paths' last biases have one: tokens without time do not take part.)
constexpr double kCancelled = 1e-12;
bool turns_every_token(const ModelConfig& config, const std::string& name) {
  return name.ends_with("semantic.sine." + std::to_string(config.angle_hidden_layers) + ".bias");
}

/// Signs of the ReLU paths' inputs, which a step must not change.
std::vector<bool> relu_signs(BasicWorkspace<double>& workspace) {
  std::vector<bool> signs;
  for (const AngleSet<double>& set : workspace.impl().angle_sets) {
    for (const PathsState<double>& paths : set.angles.temporal_paths) {
      for (const Matrix<double>& before : paths.relu.before) {
        for (std::size_t i = 0; i < before.size(); ++i) signs.push_back(before.data()[i] > 0);
      }
    }
  }
  return signs;
}

class GradientCheck {
 public:
  explicit GradientCheck(const ModelConfig& config, std::uint64_t seed) : random_(seed) {
    model_ = to_double(*make_model(config));
    test::perturb(model_, seed);
    ranker_ = *make_double_ranker(config);
    slates_ = test::seeded_slates(config, 7, seed);
    chunk_ = test::pointers(slates_);
    const std::span<const double> z = ranker_->forward(model_, chunk_, workspace_);
    std::normal_distribution<double> normal;
    for (std::size_t i = 0; i < z.size(); ++i) d_z_.push_back(normal(random_));
    ranker_->backward(model_, workspace_, d_z_, gradient_);
    signs_ = relu_signs(workspace_);
  }

  /// Every dense tensor and every table, or the one named `only`; what does not hold, a line each.
  std::vector<std::string> run(const std::string& only = "") {
    std::vector<std::string> faults;
    for (const TensorSpec& spec : model_.layout.tensors) {
      if (!only.empty() && only != spec.name) continue;
      const std::span<const double> g = std::span(gradient_.dense).subspan(spec.offset, spec.size);
      check(
          spec.name, g, [&](std::size_t i) { return &model_.dense[spec.offset + i]; }, faults);
    }
    for (std::size_t t = 0; t < kTableCount; ++t) {
      BasicEmbeddingTable<double>& table = model_.tables[t];
      if (table.width() == 0 || (!only.empty() && only != table.name())) continue;
      const BasicRowGradients<double>& rows = gradient_.tables[t];
      for (const Key key : rows.keys) table.find_or_create(key);
      check(
          table.name(), rows.rows,
          [&](std::size_t i) {
            const std::uint32_t index = table.index_of(rows.keys[i / table.width()]);
            return &table.row_at(index)[i % table.width()];
          },
          faults);
    }
    if (static_cast<double>(flips_) > kFlipShareMax * static_cast<double>(checked_)) {
      faults.push_back(std::to_string(flips_) + " ReLU flips among " + std::to_string(checked_));
    }
    return faults;
  }

  BasicChunkGradient<double>& gradient() { return gradient_; }
  [[nodiscard]] const BasicModel<double>& model() const { return model_; }

 private:
  double loss() {
    const std::span<const double> z = ranker_->forward(model_, chunk_, workspace_);
    double total = 0;
    for (std::size_t i = 0; i < z.size(); ++i) total += d_z_[i] * z[i];
    return total;
  }

  /// Central difference; false when the step flips a ReLU.
  bool difference(double* element, double& result) {
    const double before = *element;
    *element = before + kStep;
    const double up = loss();
    const bool same_up = relu_signs(workspace_) == signs_;
    *element = before - kStep;
    const double down = loss();
    const bool same_down = relu_signs(workspace_) == signs_;
    *element = before;
    result = (up - down) / (2 * kStep);
    return same_up && same_down;
  }

  void check(const std::string& name, std::span<const double> g,
             const std::function<double*(std::size_t)>& element, std::vector<std::string>& faults) {
    double largest = 0;
    std::size_t largest_at = 0;
    for (std::size_t i = 0; i < g.size(); ++i) {
      if (std::abs(g[i]) > largest) largest_at = i;
      largest = std::max(largest, std::abs(g[i]));
    }
    if (turns_every_token(model_.config, name)) {
      if (!(largest <= kCancelled)) faults.push_back(name + ": a common turn has a gradient");
      return;
    }
    if (!(largest > 0)) {
      faults.push_back(name + ": the whole gradient is zero");
      return;
    }
    const bool all = g.size() <= kElementsPerTensor;
    const std::size_t count = all ? g.size() : kElementsPerTensor;
    std::size_t redraws = 0;
    for (std::size_t n = 0; n < count; ++n) {
      // The largest among them: a bucket table is mostly 0.
      const std::size_t i = all ? n : n == 0 && redraws == 0 ? largest_at : random_() % g.size();
      double numeric = 0;
      ++checked_;
      if (!difference(element(i), numeric)) {
        ++flips_;
        if (!all && ++redraws < 100) --n;
        continue;
      }
      if (!(std::abs(g[i] - numeric) <= kTolerance * std::max(std::abs(numeric), largest))) {
        faults.push_back(name + "[" + std::to_string(i) + "]: " + std::to_string(g[i]) +
                         " instead of " + std::to_string(numeric));
      }
    }
  }

  std::mt19937_64 random_;
  BasicModel<double> model_;
  std::unique_ptr<const BasicRanker<double>> ranker_;
  std::vector<Slate> slates_;
  std::vector<const Slate*> chunk_;
  BasicWorkspace<double> workspace_;
  std::vector<double> d_z_;
  BasicChunkGradient<double> gradient_;
  std::vector<bool> signs_;
  std::size_t checked_ = 0;
  std::size_t flips_ = 0;
};

class EveryVariant : public testing::TestWithParam<Variant> {};

TEST_P(EveryVariant, GradientsEqualCentralDifferences) {
  constexpr std::uint64_t kSeed = 20260617;
  ModelConfig config = test::small_config(GetParam());
  if (GetParam() == Variant::kSiren || GetParam() == Variant::kOrdinal) config.layers = 2;
  // Of a path that reads one age and one season, four ReLUs may all be off.
  if (GetParam() == Variant::kSirenHierarchical) config.angle_width = 10;
  GradientCheck check(config, kSeed);
  for (const std::string& fault : check.run()) ADD_FAILURE() << fault << " (seed " << kSeed << ")";
}

std::string variant_of(const testing::TestParamInfo<Variant>& info) {
  return variant_name(info.param);
}
INSTANTIATE_TEST_SUITE_P(Gradient, EveryVariant, testing::ValuesIn(all_variants()), variant_of);

/// A configuration that differs from the variant's plain one, by name.
struct Option {
  const char* name;
  Variant variant;
  void (*change)(ModelConfig&);
};
void PrintTo(const Option& option, std::ostream* out) { *out << option.name; }

class EveryOption : public testing::TestWithParam<Option> {};

TEST_P(EveryOption, GradientsEqualCentralDifferences) {
  constexpr std::uint64_t kSeed = 20260618;
  ModelConfig config = test::small_config(GetParam().variant);
  GetParam().change(config);
  GradientCheck check(config, kSeed);
  for (const std::string& fault : check.run()) ADD_FAILURE() << fault << " (seed " << kSeed << ")";
}

void per_layer(ModelConfig& config) {
  config.per_layer_angles = true;
  config.layers = 2;
}
const std::vector<Option> kOptions = {
    {"per_layer_siren", Variant::kSiren, per_layer},
    {"per_layer_temporal", Variant::kSirenTemporal, per_layer},
    {"per_layer_hierarchical", Variant::kSirenHierarchical, per_layer},
    {"per_layer_discovery", Variant::kSirenDiscovery, per_layer},
    {"per_layer_linear", Variant::kSirenLinear, per_layer},
    {"paper_init", Variant::kSiren, [](ModelConfig& c) { c.paper_init = true; }},
    {"fixed_lambda", Variant::kSiren, [](ModelConfig& c) { c.lambda_learned = false; }},
    {"fixed_omega", Variant::kSiren, [](ModelConfig& c) { c.omega_learned = false; }},
    {"residual", Variant::kSiren,
     [](ModelConfig& c) {
       c.residual_learned = true;
       c.residual_start = 0.7;
     }},
    {"attention_scale", Variant::kSiren, [](ModelConfig& c) { c.attention_scale = 0.025; }},
    {"history_of_actions", Variant::kSiren,
     [](ModelConfig& c) { c.history_kind = HistoryKind::kActions; }},
    {"one_hidden_layer", Variant::kSiren, [](ModelConfig& c) { c.angle_hidden_layers = 1; }},
    {"three_hidden_layers", Variant::kSirenHierarchical,
     [](ModelConfig& c) {
       c.angle_hidden_layers = 3;
       c.angle_width = 10;
     }},
    {"no_layers", Variant::kSirenDiscovery, [](ModelConfig& c) { c.layers = 0; }},
    {"all_scales", Variant::kSirenHierarchical,
     [](ModelConfig& c) {
       c.d_model = 20;
       c.zone_offset_ms = 19'800'000;
     }},
};
INSTANTIATE_TEST_SUITE_P(Gradient, EveryOption, testing::ValuesIn(kOptions),
                         [](const auto& info) { return std::string(info.param.name); });

// The check itself must be able to fail: one broken term at a time.
TEST(GradientCanary, ATermScaledByTwoPerCentIsFound) {
  const std::vector<std::pair<Variant, std::vector<const char*>>> broken = {
      {Variant::kSiren,
       {"rotary.lambda", "rotary.omega", "pooling.key.weight", "token_norm.bias",
        "rotary.temporal.sine.0.weight", "layers.0.attention.empty"}},
      {Variant::kSirenHierarchical,
       {"rotary.hierarchy.age.relu.0.weight", "rotary.hierarchy.day.sine.2.bias"}},
      {Variant::kSirenDiscovery, {"rotary.gate", "rotary.temporal.relu.1.weight"}},
      {Variant::kSirenTimeBias, {"bias.time", "bias.position"}},
      {Variant::kSirenAlibiTime, {"alibi.slope"}},
      {Variant::kTimeEmbedding, {"time_embedding.weight"}},
  };
  for (const auto& [variant, names] : broken) {
    for (const char* name : names) {
      GradientCheck check(test::small_config(variant), 3);
      const TensorSpec* spec = check.model().layout.find(name);
      ASSERT_NE(spec, nullptr) << name;
      for (std::size_t i = 0; i < spec->size; ++i) check.gradient().dense[spec->offset + i] *= 1.02;
      EXPECT_FALSE(check.run(name).empty()) << name;
    }
  }
}

TEST(GradientCanary, ADroppedGradientIsFound) {
  GradientCheck check(test::small_config(Variant::kSiren), 3);
  const TensorSpec* spec = check.model().layout.find("rotary.unknown_time");
  ASSERT_NE(spec, nullptr);
  for (std::size_t i = 0; i < spec->size; ++i) check.gradient().dense[spec->offset + i] = 0;
  const std::vector<std::string> faults = check.run(spec->name);
  ASSERT_EQ(faults.size(), 1U);
  EXPECT_NE(faults[0].find("whole gradient is zero"), std::string::npos);
}

TEST(GradientCanary, AWrongRowIsFound) {
  for (const TableId id :
       {TableId::kSemanticTag, TableId::kSemanticAuthor, TableId::kSemanticSurface}) {
    GradientCheck check(test::small_config(Variant::kSirenDiscovery), 3);
    const auto table = static_cast<std::size_t>(id);
    for (double& value : check.gradient().tables[table].rows) value *= 1.02;
    EXPECT_FALSE(check.run(check.model().tables[table].name()).empty()) << table;
  }
}

TEST(GradientCanary, ALayersOwnNetworkIsCheckedOnItsOwn) {
  ModelConfig config = test::small_config(Variant::kSiren);
  per_layer(config);
  GradientCheck check(config, 3);
  const TensorSpec* own = check.model().layout.find("layers.1.rotary.omega");
  const TensorSpec* other = check.model().layout.find("pooling.rotary.omega");
  ASSERT_TRUE(own != nullptr && other != nullptr);
  for (std::size_t i = 0; i < own->size; ++i) {  // as if the pooling's share went to the layer
    check.gradient().dense[own->offset + i] += check.gradient().dense[other->offset + i];
  }
  EXPECT_FALSE(check.run(own->name).empty());
}

}  // namespace
}  // namespace sirenfeed::model
