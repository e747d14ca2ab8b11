#pragma once
// JSON as people read it: Boost.JSON writes 0.5 as 5E-1.
#include <boost/json.hpp>
#include <string>

namespace sirenfeed::serving {

/// Compact text. A number that is a float is written with the fewest digits that read back as that
/// float, another one as that double; what is not finite becomes null. Strings must be UTF-8.
[[nodiscard]] std::string json_text(const boost::json::value& value);

}  // namespace sirenfeed::serving
