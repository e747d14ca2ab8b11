#pragma once
// A published version as the API shows it.
#include <boost/json.hpp>

#include "model/model_store.h"

namespace sirenfeed::serving {

class ModelSlot;

/// The trainer's free-form object; {} where it is not JSON.
[[nodiscard]] boost::json::value manifest_metrics(const model::Manifest& manifest);
[[nodiscard]] boost::json::object manifest_json(const model::Manifest& manifest);
/// The body of GET /v1/model; {"version":0} before the first.
[[nodiscard]] boost::json::object model_json(ModelSlot& models);

}  // namespace sirenfeed::serving
