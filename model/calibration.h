#pragma once
// From the mean logit of the towers to the served logit: scale and bias of each task, then, where
// the model has one, the isotonic layer: linear between its knots, slope 1 beyond the outer ones.
#include <cstddef>
#include <span>

#include "model/model.h"

namespace sirenfeed::model {

/// scale[k] · z + bias[k], then the isotonic layer. Monotone in z while scale is positive.
[[nodiscard]] double calibrated(const Calibration& calibration, std::size_t task, double z);

/// In place on z [rows, K]. The one place where logits become served ones.
void calibrate(const Calibration& calibration, std::span<float> z);

/// Scale 1, bias 0 and, with config.isotonic_knots, equally spaced knots on the diagonal from −8
/// to 8.
[[nodiscard]] Calibration identity_calibration(const ModelConfig& config);

/// Whether every task's knots ascend strictly in x and y.
[[nodiscard]] bool knots_ascend(const Calibration& calibration);

}  // namespace sirenfeed::model
