#pragma once
#include <cstdint>
#include <string_view>

namespace sirenfeed::base {

/// xxh3_64 with seed 0 of the bytes: the 64-bit name of an item, tag, author, segment or surface.
[[nodiscard]] std::uint64_t xxh3_64(std::string_view bytes) noexcept;

}  // namespace sirenfeed::base
