#pragma once
// delta.safetensors: what turns one model into a later state of the same one (docs/FORMATS.md).
// Dense tensors, statistics and calibration whole; of the tables, the rows that changed and the
// keys that were erased.
#include <string>
#include <string_view>

#include "base/result.h"
#include "model/model.h"

namespace sirenfeed::model {

/// Whether a delta can lead from one to the other: equal configurations but for T_ref.
[[nodiscard]] bool same_shape(const ModelConfig& a, const ModelConfig& b);

/// The file's bytes; `before` and `model` have the same shape. Costs the dense part and the pages
/// that the two do not share.
[[nodiscard]] std::string encode_delta(const Model& before, const Model& model);

/// The later model, which shares with `before` every page that the delta leaves alone. As strict as
/// decode_model; kCorrupt also for another shape and for an erased key that `before` has not.
[[nodiscard]] base::Result<Model> apply_delta(const Model& before, std::string_view bytes);

/// Whether apply_delta would take it, without the work on the tables: whatever is not about keys
/// that are erased.
[[nodiscard]] base::Result<void> check_delta(const Model& before, std::string_view bytes);

/// About how long encode_model's answer is, in bytes: what a delta is worth comparing with.
[[nodiscard]] std::size_t full_file_bytes(const Model& model);

}  // namespace sirenfeed::model
