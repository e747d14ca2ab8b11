#pragma once
// Scores that travel with a model version: whoever loads it must get them too.
#include <vector>

#include "base/result.h"
#include "model/model.h"
#include "model/ranker.h"
#include "model/slate.h"

namespace sirenfeed::model {

/// Fixed slates made from the model itself, whose logits the manifest keeps.
[[nodiscard]] std::vector<Slate> canary_slates(const Model& model);
/// Their calibrated logits; kCorrupt when one is not finite.
[[nodiscard]] base::Result<std::vector<double>> score_canaries(const Model& model,
                                                               const Ranker& ranker);
/// kCorrupt names a logit that is further than 1e-3 · max(1, |logit|) from the expected one.
[[nodiscard]] base::Result<void> check_canaries(const std::vector<double>& expected,
                                                const std::vector<double>& actual);

}  // namespace sirenfeed::model
