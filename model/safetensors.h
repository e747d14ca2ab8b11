#pragma once
// The safetensors container: an 8-byte little-endian header length, a JSON header that maps names
// to dtype, shape and byte range, and the data. Only the dtypes that a model needs.
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace sirenfeed::model {

enum class Dtype { kF32, kI64 };

struct TensorView {
  Dtype dtype = Dtype::kF32;
  std::vector<std::size_t> shape;
  std::string_view bytes;  // borrowed

  [[nodiscard]] std::size_t elements() const;
};

struct SafetensorsView {
  std::map<std::string, std::string> metadata;
  std::map<std::string, TensorView> tensors;
};

inline constexpr std::size_t kSafetensorsHeaderMax = 100'000'000;  // bytes

/// kDecode for anything but a well-formed file: lengths, JSON, dtypes, ranges that overlap, leave
/// gaps or lie outside. The views borrow from `file`.
[[nodiscard]] base::Result<SafetensorsView> parse_safetensors(std::string_view file);

/// I64 tensors come first, so that every tensor is aligned to its element size; within a dtype they
/// are in order of name.
[[nodiscard]] std::string write_safetensors(const SafetensorsView& content);

}  // namespace sirenfeed::model
