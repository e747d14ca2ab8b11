#pragma once
// Cuts the body of POST /v1/events into the texts of its events, without reading them: each is
// parsed, accepted or refused by itself.
#include <string_view>
#include <vector>

#include "base/result.h"

namespace sirenfeed::serving {

/// One object, an array of objects, or NDJSON (by content type, or because the first line is a
/// whole object and more follows). Empty lines do not count. kInvalidArgument, "body: …": nothing
/// there, or brackets that do not match. The views point into `body`.
[[nodiscard]] base::Result<std::vector<std::string_view>> split_events(
    std::string_view body, std::string_view content_type);

}  // namespace sirenfeed::serving
