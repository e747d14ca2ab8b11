#pragma once
// Start values: pure functions of (seed, name, key), bit for bit as docs/FORMATS.md says ("Model
// starts"), so that a row which is not in a table scores as if it had just been made.
#include <cstdint>
#include <span>
#include <string_view>

namespace sirenfeed::model {

enum class StartKind {
  kConstant,  // every element is `scale`
  kUniform,   // U(−scale, scale)
  kNormal,    // N(0, scale²)
};

struct Start {
  StartKind kind = StartKind::kConstant;
  double scale = 0;
};

/// Fills `out` with elements 0, 1, … of the stream (seed, name, key). Dense tensors use key 0.
void fill_start(const Start& start, std::uint64_t seed, std::string_view name, std::uint64_t key,
                std::span<float> out);
void fill_start(const Start& start, std::uint64_t seed, std::string_view name, std::uint64_t key,
                std::span<double> out);

}  // namespace sirenfeed::model
