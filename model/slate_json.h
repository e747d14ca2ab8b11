#pragma once
// The JSON form of a request that `sirenfeed score` reads, one object a line (DESIGN.md):
// {"time":ms|null,"segment":string|null,"history":[{"item","tags","author","time","actions"},
// oldest first],"candidates":[{"item","tags","author","context":[F + F_t numbers]}]}. Ids become
// xxh3_64 of their UTF-8 bytes; actions that are not configured are dropped. The request may have a
// "user" besides, and the request and every token of the history a "surface" (absent: not known).
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "model/config.h"
#include "model/slate.h"

namespace sirenfeed::model {

/// kDecode for broken JSON or a wrong type, kInvalidArgument for a wrong context length; both name
/// the field.
[[nodiscard]] base::Result<Slate> slate_from_json(const ModelConfig& config, std::string_view line);

/// {"logits":[[one a task] a candidate]} with 9 significant digits, no newline.
[[nodiscard]] std::string logits_to_json(std::span<const float> logits, std::size_t n_tasks);

}  // namespace sirenfeed::model
