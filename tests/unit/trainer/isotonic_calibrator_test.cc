#include "trainer/isotonic_calibrator.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "model/calibration.h"
#include "model/loss.h"

namespace sirenfeed::trainer {
namespace {

model::Calibration identity() {
  model::ModelConfig config;
  config.tasks = {"click"};
  config.isotonic_knots = kIsotonicKnots;
  return model::identity_calibration(config);
}

TEST(PoolAdjacentViolators, PoolsWhatDescends) {
  std::vector<double> value{1, 3, 2, 2, 5, 4};
  const std::vector<double> weight{1, 1, 1, 2, 1, 3};
  pool_adjacent_violators(value, weight);
  const std::vector<double> expected{1, 2.25, 2.25, 2.25, 4.25, 4.25};
  for (std::size_t i = 0; i < value.size(); ++i) EXPECT_DOUBLE_EQ(value[i], expected[i]) << i;
}

/// Labels whose log-odds are 2 z − 1: what the layer has to find.
void learn(IsotonicCalibrator& calibrator, model::Calibration& calibration, int batches,
           std::mt19937_64& random) {
  std::normal_distribution<float> normal;
  std::uniform_real_distribution<double> uniform;
  for (int b = 0; b < batches; ++b) {
    std::vector<float> z;
    model::SlateLabels labels;
    for (int i = 0; i < 64; ++i) {
      z.push_back(normal(random));
      labels.label.push_back(uniform(random) < model::sigmoid(2.0 * z.back() - 1.0) ? 1.0F : 0.0F);
      labels.weight.push_back(1.0F);
    }
    calibrator.add(calibration, z, labels);
    calibrator.step(calibration);
  }
}

TEST(IsotonicCalibrator, FindsAMonotoneMapAndKeepsTheOrder) {
  std::mt19937_64 random(5);
  model::Calibration calibration = identity();
  IsotonicCalibrator calibrator(calibration, {});
  learn(calibrator, calibration, 800, random);
  for (const double z : {-1.5, -0.5, 0.0, 0.5, 1.5}) {
    EXPECT_NEAR(model::calibrated(calibration, 0, z), 2 * z - 1, 0.35) << z;
  }
  EXPECT_TRUE(model::knots_ascend(calibration));
  double before = model::calibrated(calibration, 0, -10);
  for (double z = -9.99; z < 10; z += 0.01) {
    const double now = model::calibrated(calibration, 0, z);
    EXPECT_GT(now, before) << z;
    before = now;
  }
}

TEST(IsotonicCalibrator, ARestoredOneGoesOnAlike) {
  std::mt19937_64 random(6);
  model::Calibration calibration = identity();
  IsotonicCalibrator calibrator(calibration, {});
  learn(calibrator, calibration, 37, random);
  std::string bytes;
  calibrator.append_to(bytes);
  model::Calibration other_calibration = calibration;
  IsotonicCalibrator other(other_calibration, {});
  std::string_view rest = bytes;
  ASSERT_TRUE(other.restore(rest));
  std::mt19937_64 same = random;
  learn(calibrator, calibration, 20, random);
  learn(other, other_calibration, 20, same);
  EXPECT_EQ(calibration.knot_y, other_calibration.knot_y);
}

TEST(IsotonicCalibrator, WithoutCellsTheLayerStaysTheIdentity) {
  model::Calibration calibration = identity();
  IsotonicCalibrator calibrator(calibration, {});
  for (int i = 0; i < 64; ++i) calibrator.step(calibration);
  for (std::size_t i = 0; i < calibration.knot_x.size(); ++i) {
    EXPECT_NEAR(calibration.knot_y[i], calibration.knot_x[i], 1e-5);
  }
}

}  // namespace
}  // namespace sirenfeed::trainer
