#pragma once
#include <cstdint>
#include <string_view>

namespace sirenfeed::base {

/// xxh3_64 with seed 0 of the bytes: the 64-bit name of an item, tag, author, segment or surface.
[[nodiscard]] std::uint64_t xxh3_64(std::string_view bytes) noexcept;

/// Increment of SplitMix64's state (Steele, Lea and Flood, "Fast splittable pseudorandom number
/// generators", 2014).
inline constexpr std::uint64_t kSplitMixStep = 0x9E3779B97F4A7C15ULL;

/// Its finaliser: a bijection in which every bit of `z` reaches every bit of the result. Part of
/// file formats (docs/FORMATS.md, Model starts).
[[nodiscard]] constexpr std::uint64_t mix64(std::uint64_t z) noexcept {
  z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27U)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31U);
}

}  // namespace sirenfeed::base
