#pragma once
// Reading the JSON of a request's body; every error begins with the field's name.
#include <boost/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace sirenfeed::serving {

/// "body: …" when it is no JSON object.
[[nodiscard]] base::Result<boost::json::object> json_object(std::string_view body);
/// A string, or an integer taken as its digits; not empty, no control character.
[[nodiscard]] base::Result<std::string> json_id(std::string_view field,
                                                const boost::json::value& value);
/// An array of ids; "items[3]: …" names the element.
[[nodiscard]] base::Result<std::vector<std::string>> json_ids(std::string_view field,
                                                              const boost::json::value& value);

}  // namespace sirenfeed::serving
