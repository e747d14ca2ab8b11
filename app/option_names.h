#pragma once
// A folder's validate() names its own field; the person who started the command wrote an option.
#include <string_view>

#include "base/result.h"

namespace sirenfeed::app {

/// `error` with the field that its message begins with ("http.request_queue_max: …", "model config:
/// heads is …") as the option of `section` that sets it ("--serving.request_queue_max: …"). A
/// message that begins otherwise stays.
[[nodiscard]] base::Error named_as_option(base::Error error, std::string_view section);

/// The same for a result.
[[nodiscard]] base::Result<void> named_as_option(base::Result<void> result,
                                                 std::string_view section);

}  // namespace sirenfeed::app
