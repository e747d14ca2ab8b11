#pragma once
#include <cstdint>
#include <span>
#include <string>

namespace sirenfeed::features {

/// xxh3_64 of the names, each followed by a newline: two lists with the same value have the same
/// order.
[[nodiscard]] std::uint64_t schema_hash(std::span<const std::string> names);

}  // namespace sirenfeed::features
