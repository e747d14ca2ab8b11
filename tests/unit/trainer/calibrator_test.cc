#include "trainer/calibrator.h"

#include <gtest/gtest.h>

#include <cmath>

namespace sirenfeed::trainer {
namespace {

TEST(Calibrator, OneStepIsAdagradOnTheMeanGradientOfUnmaskedCells) {
  const OptimizerConfig config;
  Calibrator calibrator(2, config);
  model::Calibration calibration{.scale = {1, 1}, .bias = {0, 0}};
  const std::vector<float> z{2.0F, 7.0F, -1.0F, 7.0F};
  const model::SlateLabels labels{.label = {1, 1, 1, 1}, .weight = {1, 0, 1, 0}};
  calibrator.add(calibration, z, labels);
  calibrator.step(calibration);
  const auto sigmoid = [](double x) { return 1 / (1 + std::exp(-x)); };
  const double d_bias = ((sigmoid(2) - 1) + (sigmoid(-1) - 1)) / 2;
  const double d_scale = ((sigmoid(2) - 1) * 2 + (sigmoid(-1) - 1) * -1) / 2;
  EXPECT_NEAR(calibration.bias[0], -0.02 * d_bias / std::sqrt(1 + d_bias * d_bias), 1e-7);
  EXPECT_NEAR(calibration.scale[0], 1 - 0.02 * d_scale / std::sqrt(1 + d_scale * d_scale), 1e-7);
  EXPECT_EQ(calibration.scale[1], 1.0F);
  EXPECT_EQ(calibration.bias[1], 0.0F);
}

TEST(Calibrator, FindsTheBiasOfAnOverconfidentModel) {
  Calibrator calibrator(1, OptimizerConfig{});
  model::Calibration calibration{.scale = {1}, .bias = {0}};
  for (int i = 0; i < 400'000; ++i) {
    const model::SlateLabels labels{.label = {i % 10 == 0 ? 1.0F : 0.0F}, .weight = {1}};
    calibrator.add(calibration, std::vector<float>{0.0F}, labels);
    if (i % 10 == 9) calibrator.step(calibration);
  }
  EXPECT_NEAR(1 / (1 + std::exp(-calibration.bias[0])), 0.1, 0.01);
}

}  // namespace
}  // namespace sirenfeed::trainer
