#include "trainer/calibrator.h"

#include <cmath>

#include "base/check.h"
#include "model/loss.h"
#include "trainer/byte_io.h"

namespace sirenfeed::trainer {

Calibrator::Calibrator(std::size_t tasks, const OptimizerConfig& config)
    : rate_(config.calibration_rate),
      batch_(tasks),
      g_scale_(tasks, config.calibration_g0),
      g_bias_(tasks, config.calibration_g0) {}

void Calibrator::add(const model::Calibration& calibration, std::span<const float> z,
                     const model::SlateLabels& labels) {
  SF_CHECK(z.size() == labels.label.size());
  const std::size_t tasks = batch_.size();
  for (std::size_t cell = 0; cell < z.size(); ++cell) {
    const double weight = labels.weight[cell];
    if (weight == 0) continue;
    const std::size_t k = cell % tasks;
    const double logit = static_cast<double>(calibration.scale[k]) * z[cell] + calibration.bias[k];
    // A fake negative that turns out positive: the difference of the two labels, as of a late one.
    const double d_logit =
        weight * (labels.correction ? -1 : model::sigmoid(logit) - labels.label[cell]);
    batch_[k].weight += weight;
    batch_[k].d_scale += d_logit * z[cell];
    batch_[k].d_bias += d_logit;
  }
}

void Calibrator::step(model::Calibration& calibration) {
  for (std::size_t k = 0; k < batch_.size(); ++k) {
    const Sums sums = batch_[k];
    batch_[k] = {};
    if (sums.weight == 0) continue;
    const double d_scale = sums.d_scale / sums.weight;
    const double d_bias = sums.d_bias / sums.weight;
    g_scale_[k] += d_scale * d_scale;
    g_bias_[k] += d_bias * d_bias;
    calibration.scale[k] -= static_cast<float>(rate_ * d_scale / std::sqrt(g_scale_[k]));
    calibration.bias[k] -= static_cast<float>(rate_ * d_bias / std::sqrt(g_bias_[k]));
  }
}

void Calibrator::append_to(std::string& bytes) const {
  put_vector(bytes, g_scale_);
  put_vector(bytes, g_bias_);
}

base::Result<void> Calibrator::restore(std::string_view& bytes) {
  SF_TRY(take_vector(bytes, g_scale_, "calibration"));
  SF_TRY(take_vector(bytes, g_bias_, "calibration"));
  if (g_scale_.size() != batch_.size() || g_bias_.size() != batch_.size()) {
    return base::fail(base::ErrorCode::kCorrupt, "calibration of {} tasks, expected {}",
                      g_scale_.size(), batch_.size());
  }
  return {};
}

}  // namespace sirenfeed::trainer
