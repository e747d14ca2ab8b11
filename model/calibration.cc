#include "model/calibration.h"

#include <algorithm>

namespace sirenfeed::model {

namespace {

constexpr double kKnotSpan = 8.0;  // outer knots, in logits

double through_knots(std::span<const float> x, std::span<const float> y, double z) {
  const auto above = std::upper_bound(x.begin(), x.end(), z);
  if (above == x.begin()) return z + (static_cast<double>(y.front()) - x.front());
  if (above == x.end()) return z + (static_cast<double>(y.back()) - x.back());
  const auto i = static_cast<std::size_t>(above - x.begin());
  const double share = (z - x[i - 1]) / (static_cast<double>(x[i]) - x[i - 1]);
  return y[i - 1] + share * (static_cast<double>(y[i]) - y[i - 1]);
}

}  // namespace

double calibrated(const Calibration& calibration, std::size_t task, double z) {
  const double scaled = static_cast<double>(calibration.scale[task]) * z +
                        static_cast<double>(calibration.bias[task]);
  if (calibration.knot_x.empty()) return scaled;
  const std::size_t knots = calibration.knot_x.size() / calibration.scale.size();
  return through_knots(std::span(calibration.knot_x).subspan(task * knots, knots),
                       std::span(calibration.knot_y).subspan(task * knots, knots), scaled);
}

void calibrate(const Calibration& calibration, std::span<float> z) {
  const std::size_t tasks = calibration.scale.size();
  if (calibration.knot_x.empty()) {
    for (std::size_t i = 0; i < z.size(); ++i) {
      z[i] = calibration.scale[i % tasks] * z[i] + calibration.bias[i % tasks];
    }
    return;
  }
  for (std::size_t i = 0; i < z.size(); ++i) {
    z[i] = static_cast<float>(calibrated(calibration, i % tasks, z[i]));
  }
}

Calibration identity_calibration(const ModelConfig& config) {
  Calibration calibration;
  calibration.scale.assign(config.n_tasks(), 1.0F);
  calibration.bias.assign(config.n_tasks(), 0.0F);
  const auto knots = static_cast<std::size_t>(config.isotonic_knots);
  for (std::size_t i = 0; i < config.n_tasks() * knots; ++i) {
    const double share = static_cast<double>(i % knots) / static_cast<double>(knots - 1);
    calibration.knot_x.push_back(static_cast<float>(kKnotSpan * (2 * share - 1)));
  }
  calibration.knot_y = calibration.knot_x;
  return calibration;
}

bool knots_ascend(const Calibration& calibration) {
  if (calibration.knot_x.empty()) return true;
  const std::size_t knots = calibration.knot_x.size() / calibration.scale.size();
  for (std::size_t i = 1; i < calibration.knot_x.size(); ++i) {
    if (i % knots == 0) continue;
    if (!(calibration.knot_x[i] > calibration.knot_x[i - 1])) return false;
    if (!(calibration.knot_y[i] > calibration.knot_y[i - 1])) return false;
  }
  return true;
}

}  // namespace sirenfeed::model
