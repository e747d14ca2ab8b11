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
bool turns_every_token(const std::string& name) { return name == "rotary.semantic.sine.2.bias"; }

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
    for (const double value : g) largest = std::max(largest, std::abs(value));
    if (turns_every_token(name)) {
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
      const std::size_t i = all ? n : random_() % g.size();
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
  GradientCheck check(config, kSeed);
  for (const std::string& fault : check.run()) ADD_FAILURE() << fault << " (seed " << kSeed << ")";
}

INSTANTIATE_TEST_SUITE_P(Gradient, EveryVariant,
                         testing::Values(Variant::kSiren, Variant::kOrdinal, Variant::kNone,
                                         Variant::kSirenTemporal, Variant::kSirenSineOnly,
                                         Variant::kSirenReluOnly, Variant::kSirenSemantic,
                                         Variant::kSirenLinear, Variant::kTorope,
                                         Variant::kTimeBias, Variant::kSirenTimeBias,
                                         Variant::kAlibiTime, Variant::kSirenAlibiTime,
                                         Variant::kTimeEmbedding),
                         [](const auto& info) { return std::string(variant_name(info.param)); });

// The check itself must be able to fail: one broken term at a time.
TEST(GradientCanary, ATermScaledByTwoPerCentIsFound) {
  for (const char* name : {"rotary.lambda", "rotary.omega", "pooling.key.weight", "token_norm.bias",
                           "rotary.temporal.sine.0.weight", "layers.0.attention.empty"}) {
    GradientCheck check(test::small_config(Variant::kSiren), 3);
    const TensorSpec* spec = check.model().layout.find(name);
    ASSERT_NE(spec, nullptr);
    for (std::size_t i = 0; i < spec->size; ++i) check.gradient().dense[spec->offset + i] *= 1.02;
    EXPECT_FALSE(check.run(name).empty()) << name;
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
  GradientCheck check(test::small_config(Variant::kSiren), 3);
  for (double& value :
       check.gradient().tables[static_cast<std::size_t>(TableId::kSemanticTag)].rows) {
    value *= 1.02;
  }
  EXPECT_FALSE(check.run("rotary.semantic.tag").empty());
}

}  // namespace
}  // namespace sirenfeed::model
