#include "trainer/optimizer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace sirenfeed::trainer {
namespace {

model::ParameterLayout layout_of(std::vector<std::pair<std::size_t, bool>> tensors) {
  model::ParameterLayout layout;
  for (const auto& [size, trained] : tensors) {
    model::TensorSpec spec;
    spec.name = "t" + std::to_string(layout.tensors.size());
    spec.shape = {size};
    spec.offset = layout.size;
    spec.size = size;
    spec.trained = trained;
    layout.tensors.push_back(spec);
    layout.size += size;
  }
  return layout;
}

TEST(Adam, FollowsTheTextbookWithWarmUpAndClip) {
  OptimizerConfig config;
  config.warmup_steps = 4;
  Adam adam(layout_of({{2, true}}), config);
  std::vector<float> p{1.0F, -2.0F};
  double m[2] = {}, v[2] = {}, reference[2] = {1.0, -2.0};
  const std::vector<std::vector<float>> gradients{{0.3F, -0.1F}, {3.0F, 4.0F}, {0.0F, 0.2F},
                                                  {-0.5F, 0.1F}, {0.2F, 0.2F}, {0.1F, -0.3F}};
  for (std::size_t t = 1; t <= gradients.size(); ++t) {
    const std::vector<float>& g = gradients[t - 1];
    const double norm = std::hypot(g[0], g[1]);
    EXPECT_NEAR(adam.norm(g), norm, 1e-7);
    adam.step(p, g, adam.norm(g));
    const double clip = norm > 1 ? 1 / norm : 1;
    const double rate = 1e-3 * std::min(1.0, static_cast<double>(t) / 4);
    for (int i = 0; i < 2; ++i) {
      const double gi = g[static_cast<std::size_t>(i)] * clip;
      m[i] = 0.9 * m[i] + 0.1 * gi;
      v[i] = 0.999 * v[i] + 0.001 * gi * gi;
      const double mean = m[i] / (1 - std::pow(0.9, static_cast<double>(t)));
      const double square = v[i] / (1 - std::pow(0.999, static_cast<double>(t)));
      reference[i] -= rate * mean / (std::sqrt(square) + 1e-8);
    }
    EXPECT_NEAR(p[0], reference[0], 1e-6) << t;
    EXPECT_NEAR(p[1], reference[1], 1e-6) << t;
  }
}

TEST(Adam, LeavesUntrainedTensorsAndTheirNormAlone) {
  Adam adam(layout_of({{3, true}, {2, false}, {9, true}}), OptimizerConfig{});
  std::vector<float> p(14, 1.0F);
  std::vector<float> g(14, 0.0F);
  g[3] = g[4] = 100.0F;
  g[0] = 0.5F;
  EXPECT_DOUBLE_EQ(adam.norm(g), 0.5);
  adam.step(p, g, adam.norm(g));
  EXPECT_EQ(p[3], 1.0F);
  EXPECT_NE(p[0], 1.0F);
  g[13] = std::numeric_limits<float>::infinity();
  EXPECT_FALSE(std::isfinite(adam.norm(g)));
}

TEST(RowAdagrad, DecaysWithEventTimeAndNeverBackwards) {
  OptimizerConfig config;
  model::EmbeddingTable table("embedding.item", 2, {}, 1);
  RowAdagrad adagrad(config);
  const std::uint32_t index = table.find_or_create(42);
  const std::vector<float> g{0.3F, -0.4F};
  double sum = 0;
  double x[2] = {table.row_at(index)[0], table.row_at(index)[1]};
  base::UnixMs last = 0;
  const base::UnixMs day = base::kMsPerDay;
  for (const base::UnixMs now : {5 * day, 19 * day, 12 * day, 20 * day}) {
    adagrad.step(table, index, g, now);
    if (last != 0 && now > last) {
      sum *= std::pow(0.5, static_cast<double>(now - last) / static_cast<double>(14 * day));
    }
    last = std::max(last, now);
    sum += (0.09 + 0.16) / 2;
    for (int i = 0; i < 2; ++i) {
      x[i] -= 0.05 * g[static_cast<std::size_t>(i)] / (std::sqrt(sum) + 1e-6);
    }
    EXPECT_NEAR(table.row_at(index)[0], x[0], 1e-6);
    EXPECT_NEAR(table.row_at(index)[1], x[1], 1e-6);
  }
}

TEST(RowAdagrad, SurvivesACheckpointInRowOrder) {
  const OptimizerConfig config;
  model::EmbeddingTable table("embedding.item", 3, {model::StartKind::kNormal, 0.5}, 1);
  RowAdagrad adagrad(config);
  for (const model::Key key : {9U, 3U, 7U, 3U}) {
    adagrad.step(table, table.find_or_create(key), std::vector<float>{0.1F, 0.2F, 0.3F}, key);
  }
  std::string bytes;
  adagrad.append_to(bytes, table);
  const auto empty = [] {
    return model::EmbeddingTable("embedding.item", 3, {model::StartKind::kNormal, 0.5}, 1);
  };
  model::EmbeddingTable restored_table = empty();
  RowAdagrad restored(config);
  std::string_view rest = bytes;
  ASSERT_TRUE(restored.restore(rest, restored_table).has_value());
  EXPECT_TRUE(rest.empty());
  std::string again;
  restored.append_to(again, restored_table);
  EXPECT_EQ(bytes, again);
  EXPECT_EQ(restored_table.key_at(0), 9U);
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    std::string_view part = std::string_view(bytes).substr(0, length);
    model::EmbeddingTable other = empty();
    EXPECT_FALSE(RowAdagrad(config).restore(part, other).has_value()) << length;
  }
}

TEST(RowAdagrad, ExpiredRowsReturnToTheirStartAndTheOthersKeepTheirState) {
  model::EmbeddingTable table("embedding.item", 1, {model::StartKind::kNormal, 0.5}, 1);
  RowAdagrad adagrad{OptimizerConfig{}};
  for (base::UnixMs key = 1; key <= 6; ++key) {
    const std::uint32_t index = table.find_or_create(static_cast<model::Key>(key));
    adagrad.step(table, index, std::vector<float>{1.0F}, key % 2 == 0 ? 1'000 : 10);
  }
  const float kept = table.row_at(table.index_of(4))[0];
  EXPECT_EQ(adagrad.expire(table, 500), 3U);
  EXPECT_EQ(table.size(), 3U);
  EXPECT_EQ(table.index_of(3), model::kNoRow);
  ASSERT_NE(table.index_of(4), model::kNoRow);
  EXPECT_EQ(table.row_at(table.index_of(4))[0], kept);
  // G of row 4 is still 1: the second step is 1/√2 of the first.
  float start[1];
  model::EmbeddingTable fresh("embedding.item", 1, {model::StartKind::kNormal, 0.5}, 1);
  fresh.copy_row(4, start);
  adagrad.step(table, table.index_of(4), std::vector<float>{1.0F}, 1'000);
  EXPECT_NEAR(kept - table.row_at(table.index_of(4))[0], (start[0] - kept) / std::sqrt(2.0F), 1e-4);
  std::string bytes;
  adagrad.append_to(bytes, table);  // checks that both have the same rows
}

TEST(RateSchedule, WarmsUpFallsAndNeverStops) {
  OptimizerConfig config;
  config.warmup_steps = 100;
  config.dense_rate_steps = 1'000;
  config.dense_rate_floor = 0.1;
  for (const RateSchedule schedule :
       {RateSchedule::kConstant, RateSchedule::kWarmupCosine, RateSchedule::kInverseSqrt}) {
    config.dense_rate_schedule = schedule;
    EXPECT_DOUBLE_EQ(rate_share(config, 1), 0.01);
    EXPECT_DOUBLE_EQ(rate_share(config, 50), 0.5);
    double before = 1;
    for (std::uint64_t step = 100; step < 300'000; step += 37) {
      const double share = rate_share(config, step);
      EXPECT_LE(share, before) << rate_schedule_name(schedule) << " " << step;
      EXPECT_GE(share, 0.1);
      before = share;
    }
    EXPECT_DOUBLE_EQ(before, schedule == RateSchedule::kConstant ? 1.0 : 0.1);
  }
  config.dense_rate_schedule = RateSchedule::kWarmupCosine;
  EXPECT_NEAR(rate_share(config, 600), 0.55, 1e-12);
  config.dense_rate_schedule = RateSchedule::kInverseSqrt;
  EXPECT_DOUBLE_EQ(rate_share(config, 4'000), 0.5);
}

TEST(RateSchedule, NamesAreReadBack) {
  for (const char* name : {"constant", "warmup_cosine", "inverse_sqrt"}) {
    EXPECT_STREQ(rate_schedule_name(*parse_rate_schedule(name)), name);
  }
  EXPECT_FALSE(parse_rate_schedule("linear"));
  for (const char* name : {"scale_bias", "isotonic", "none"}) {
    EXPECT_STREQ(calibration_name(*parse_calibration(name)), name);
  }
  EXPECT_FALSE(parse_calibration("platt"));
}

}  // namespace
}  // namespace sirenfeed::trainer
