#pragma once
// Reasons that are true now and cheap to find. The issue on explanations adds attention.
#include <string>
#include <vector>

#include "model/model_store.h"
#include "serving/candidate.h"

namespace sirenfeed::serving {

/// At most five sentences: the source, the strongest probability, what of the user's history shares
/// topic or author with the item, and the context features that moved the click logit most through
/// the model's wide terms (exact contributions). `context`: the item's c; `snapshot` may be null.
[[nodiscard]] std::vector<std::string> explain(const FeedContext& request,
                                               const ScoredCandidate& scored,
                                               std::span<const float> context,
                                               const model::ModelSnapshot* snapshot);

}  // namespace sirenfeed::serving
