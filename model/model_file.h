#pragma once
// model.safetensors, whole: the file alone is enough to score (docs/FORMATS.md).
#include <string>
#include <string_view>

#include "base/result.h"
#include "model/model.h"

namespace sirenfeed::model {

/// The file's bytes. The same model gives the same bytes.
[[nodiscard]] std::string encode_model(const Model& model);
/// Strict: kDecode for a malformed or truncated file; kCorrupt for a tensor that is missing,
/// unknown, of the wrong dtype or shape, or not finite, and for tables out of order. Names it.
[[nodiscard]] base::Result<Model> decode_model(std::string_view bytes);

/// Writes and fsyncs `path` in place (kStorage).
[[nodiscard]] base::Result<void> save_model(const Model& model, const std::string& path);
/// kNotFound, kStorage, or decode_model's errors, with the path in front.
[[nodiscard]] base::Result<Model> load_model(const std::string& path);

}  // namespace sirenfeed::model
