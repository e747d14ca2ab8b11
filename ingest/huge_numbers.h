#pragma once
// JSON allows numbers of any size, simdjson refuses those that fit no 64-bit integer or double.
#include <optional>
#include <string>
#include <string_view>

namespace sirenfeed::ingest {

/// The same JSON with its out-of-range integers as strings of their digits, and its out-of-range
/// fractions as arrays of such a string (so that no field takes them). nullopt: nothing to replace.
/// `json` need not be valid; what is not a number stays as it is.
[[nodiscard]] std::optional<std::string> quote_huge_numbers(std::string_view json);

}  // namespace sirenfeed::ingest
