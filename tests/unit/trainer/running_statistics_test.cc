#include "trainer/running_statistics.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/unit/trainer/synthetic_examples.h"

namespace sirenfeed::trainer {
namespace {

model::Statistics empty_statistics(const model::ModelConfig& config) {
  return {.context_mean = std::vector<float>(config.n_context()),
          .context_std = std::vector<float>(config.n_context(), 1.0F),
          .action_mean = std::vector<float>(config.n_actions() + 1),
          .context_examples = 0};
}

TEST(RunningStatistics, AreThePlainMeanAndStdOfExamplesWithOneCandidate) {
  const model::ModelConfig config = testing::small_config();
  RunningStatistics running(config, 1e-5);
  const auto examples = testing::decode_all(testing::make_examples({.examples = 50}));
  double mean = 0;
  double square = 0;
  double clicks = 0;
  double none = 0;
  double histories = 0;
  for (const DecodedExample& example : examples) {
    running.add(example.slate);
    mean += example.slate.context[2] / 50;
    square += static_cast<double>(example.slate.context[2]) * example.slate.context[2] / 50;
    const auto& history = example.slate.history;
    if (history.empty()) continue;
    const std::size_t n = std::min<std::size_t>(history.size(), 5);
    double own_clicks = 0;
    double own_none = 0;
    for (std::size_t i = history.size() - n; i < history.size(); ++i) {
      own_clicks += history[i].action_bits & 1U;
      own_none += history[i].action_bits == 0 ? 1 : 0;
    }
    clicks += own_clicks / static_cast<double>(n);
    none += own_none / static_cast<double>(n);
    histories += 1;
  }
  model::Statistics statistics = empty_statistics(config);
  running.write_to(statistics);
  EXPECT_EQ(statistics.context_examples, 50U);
  EXPECT_NEAR(statistics.context_mean[2], mean, 1e-6);
  EXPECT_NEAR(statistics.context_std[2], std::sqrt(square - mean * mean), 1e-6);
  EXPECT_NEAR(statistics.action_mean[0], clicks / histories, 1e-6);
  EXPECT_NEAR(statistics.action_mean[3], none / histories, 1e-6);
}

TEST(RunningStatistics, TheCandidatesOfASlateShareOneExamplesWeight) {
  const model::ModelConfig config = testing::small_config();
  RunningStatistics running(config, 1e-5);
  model::Slate first;
  first.candidates.resize(1);
  first.context = {1, 10, 0};
  model::Slate second;
  second.candidates.resize(2);
  second.context = {1, 0, 0, 1, 4, 0};
  running.add(first);
  running.add(second);
  model::Statistics statistics = empty_statistics(config);
  running.write_to(statistics);
  EXPECT_NEAR(statistics.context_mean[1], 0.5 * 10 + 0.25 * 0 + 0.25 * 4, 1e-6);
  EXPECT_NEAR(statistics.context_std[1], std::sqrt(0.5 * 16 + 0.25 * 36 + 0.25 * 4), 1e-6);
}

TEST(RunningStatistics, TheWeightOfANewExampleHasAFloor) {
  const model::ModelConfig config = testing::small_config();
  RunningStatistics running(config, 0.1);
  model::Slate slate;
  slate.candidates.resize(1);
  slate.context = {0, 0, 0};
  for (int i = 0; i < 100; ++i) running.add(slate);
  slate.context = {0, 1, 0};
  running.add(slate);
  model::Statistics statistics = empty_statistics(config);
  running.write_to(statistics);
  EXPECT_NEAR(statistics.context_mean[1], 0.1, 1e-6);
}

}  // namespace
}  // namespace sirenfeed::trainer
