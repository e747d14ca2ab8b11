#pragma once
// One served request as it goes into topic requests (docs/FORMATS.md).
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"

namespace sirenfeed::serving {

struct RecordedItem {
  std::string item_id;
  double score = 0;
  double propensity = 1;
  bool explored = false;
  std::string source;
  std::vector<std::pair<std::string, double>> probabilities;  // by task
  std::vector<float> context;                                 // c, as the model took it
};

struct RequestRecord {
  std::string request_id;
  std::string user_id;
  base::UnixMs time_ms = 0;
  std::string surface;  // "": none
  std::uint64_t model_version = 0;
  std::optional<std::string> degraded;
  std::uint64_t context_schema = 0;            // features::schema_hash of the names
  std::vector<RecordedItem> items;             // by position
  std::optional<base::UnixMs> erased_ms = {};  // newest erasure of the user then; not written
  std::string inputs;  // FeatureReader::served_inputs of the items; empty without a model
};

/// {"request_id","user_id","timestamp","surface"?,"model_version","degraded"?,"context_schema",
///  "items":[{"item_id","position","score","propensity","explored","source","probabilities":{…},
///  "context":[…]}],"inputs":base64?}
[[nodiscard]] std::string request_json(const RequestRecord& record);

}  // namespace sirenfeed::serving
