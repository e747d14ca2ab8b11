// 10,000 models of every variant and option, small and random, learn one batch to finite numbers.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "model/model.h"
#include "trainer/online_trainer.h"

namespace sirenfeed::trainer {
namespace {

constexpr std::uint64_t kSeed = 20261130;
constexpr int kParts = 10;
constexpr int kModelsOfAPart = 1'000;

class Draw {
 public:
  explicit Draw(std::uint64_t seed) : random_(seed) {}
  std::uint64_t below(std::uint64_t n) { return random_() % n; }
  bool coin() { return below(2) == 0; }
  double between(double low, double high) {
    return low + (high - low) * static_cast<double>(below(1'000'001)) / 1e6;
  }
  int one_of(std::initializer_list<int> values) { return *(values.begin() + below(values.size())); }

 private:
  std::mt19937_64 random_;
};

model::ModelConfig random_config(Draw& draw) {
  const std::vector<model::Variant> variants = model::all_variants();
  model::ModelConfig config;
  config.variant = variants[draw.below(variants.size())];
  config.heads = draw.one_of({1, 2, 3});
  config.d_model = config.heads * draw.one_of({2, 4, 6, 16});
  config.layers = draw.one_of({0, 1, 2});
  config.history_max = draw.one_of({1, 2, 5, 17});
  config.angle_width = draw.one_of({1, 3, 8});
  config.angle_hidden_layers = draw.one_of({1, 2, 3});
  config.semantic_width = draw.one_of({1, 4, 16});
  config.omega0 = draw.between(0.1, 30);
  config.base = draw.between(1.5, 1e6);
  config.attention_scale = draw.between(0.01, 2);
  config.residual_start = draw.between(0.01, 1.5);
  config.residual_learned = draw.coin();
  config.lambda_learned = draw.coin();
  config.omega_learned = draw.coin();
  config.paper_init = draw.coin();
  config.per_layer_angles = draw.coin();
  if (draw.coin()) config.history_kind = model::HistoryKind::kActions;
  config.zone_offset_ms = static_cast<std::int64_t>(draw.below(86'400'000)) - 43'200'000;
  config.time_span_ms = 3'600'000 + static_cast<std::int64_t>(draw.below(10'000'000'000));
  config.actions.resize(draw.below(4));
  config.tasks.resize(1 + draw.below(3));
  for (std::uint64_t f = draw.below(4); f > 0; --f) {
    config.context_names.push_back("c" + std::to_string(f));
  }
  config.seed = draw.below(1'000'000);
  return config;
}

std::int64_t random_time(Draw& draw) {
  switch (draw.below(5)) {
    case 0:
      return -static_cast<std::int64_t>(draw.below(4'000'000'000'000));
    case 1:
      return 4'102'444'800'000 + static_cast<std::int64_t>(draw.below(4'000'000'000'000));
    default:
      return 1'650'000'000'000 + static_cast<std::int64_t>(draw.below(4'000'000'000));
  }
}

DecodedExample random_example(Draw& draw, const model::ModelConfig& config) {
  DecodedExample example;
  model::Slate& slate = example.slate;
  const auto item = [&] {
    model::ItemRef ref{1 + draw.below(9), draw.below(3),
                       static_cast<std::uint32_t>(slate.tags.size()), 0};
    for (std::uint64_t t = draw.below(3); t > 0; --t) slate.tags.push_back(1 + draw.below(4));
    ref.tags_end = static_cast<std::uint32_t>(slate.tags.size());
    return ref;
  };
  slate.time_ms = random_time(draw);
  slate.segment = draw.below(3);
  slate.surface = draw.below(3);
  for (std::uint64_t h = draw.below(4); h > 0; --h) {
    const std::int64_t gap = draw.coin() ? 0 : static_cast<std::int64_t>(draw.below(1'000'000'000));
    slate.history.push_back(
        {.item = item(),
         .time_ms = draw.below(5) == 0 ? model::kUnknownTime : slate.time_ms - gap,
         .action_bits = static_cast<std::uint32_t>(draw.below(8)),
         .surface = draw.below(3)});
  }
  for (std::uint64_t c = 1 + draw.below(3); c > 0; --c) {
    slate.candidates.push_back(item());
    for (std::size_t f = 0; f < config.n_context(); ++f) {
      slate.context.push_back(static_cast<float>(draw.between(-9, 9)));
    }
    for (std::size_t k = 0; k < config.n_tasks(); ++k) {
      example.labels.label.push_back(draw.coin() ? 1.0F : 0.0F);
      example.labels.weight.push_back(draw.below(5) == 0 ? 0.0F : 1.0F);
    }
  }
  return example;
}

bool all_finite(const model::Model& model) {
  const auto finite = [](std::span<const float> values) {
    return std::all_of(values.begin(), values.end(), [](float v) { return std::isfinite(v); });
  };
  bool held = finite(model.dense) && finite(model.statistics.context_mean) &&
              finite(model.statistics.action_mean) && finite(model.calibration.scale);
  for (const model::EmbeddingTable& table : model.tables) {
    for (std::uint32_t i = 0; i < table.size(); ++i) held = held && finite(table.row_at(i));
  }
  return held;
}

class RandomConfigurations : public testing::TestWithParam<int> {};

TEST_P(RandomConfigurations, LearnABatchToFiniteNumbers) {
  std::vector<int> seen(model::all_variants().size(), 0);
  for (int i = 0; i < kModelsOfAPart; ++i) {
    const std::uint64_t seed = kSeed + static_cast<std::uint64_t>(GetParam()) * kModelsOfAPart +
                               static_cast<std::uint64_t>(i);
    Draw draw(seed);
    model::ModelConfig config = random_config(draw);
    const std::vector<std::string> names = {"click", "long_view", "like"};
    std::copy_n(names.begin(), config.actions.size(), config.actions.begin());
    std::copy_n(names.begin(), config.tasks.size(), config.tasks.begin());
    const auto start = model::make_model(config);
    ASSERT_TRUE(start) << start.error().message << " (seed " << seed << ")";
    StepConfig step;
    step.threads = 1;
    step.loss.task_weights.assign(config.n_tasks(), 1.0);
    step.optimizer.dense_rate = draw.between(1e-4, 0.1);
    step.optimizer.warmup_steps = 0;
    const auto trainer = OnlineTrainer::create(*start, step);
    ASSERT_TRUE(trainer) << trainer.error().message << " (seed " << seed << ")";
    std::vector<DecodedExample> examples;
    std::vector<const DecodedExample*> batch;
    for (int e = 0; e < 3; ++e) examples.push_back(random_example(draw, config));
    for (const DecodedExample& example : examples) batch.push_back(&example);
    const StepReport report = (*trainer)->learn(batch);
    ASSERT_TRUE(report.learned && std::isfinite(report.loss))
        << model::variant_name(config.variant) << " (seed " << seed << ")";
    ASSERT_TRUE(all_finite((*trainer)->model()))
        << model::variant_name(config.variant) << " (seed " << seed << ")";
    ASSERT_NE((*trainer)->model().dense, start->dense) << "nothing was learned, seed " << seed;
    ++seen[static_cast<std::size_t>(config.variant)];
  }
  for (const int count : seen) EXPECT_GT(count, 0);
}

INSTANTIATE_TEST_SUITE_P(Part, RandomConfigurations, testing::Range(0, kParts));

}  // namespace
}  // namespace sirenfeed::trainer
