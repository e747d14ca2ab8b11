#pragma once
// Little-endian fields of the checkpoint, written to and read from a byte string.
#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/result.h"

namespace sirenfeed::trainer {

static_assert(std::endian::native == std::endian::little, "checkpoints are written as memory");

template <class T>
void put(std::string& bytes, const T& value) {
  static_assert(std::is_trivially_copyable_v<T>);
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

/// u64 count, then the elements.
template <class T>
void put_vector(std::string& bytes, const std::vector<T>& values) {
  static_assert(std::is_trivially_copyable_v<T>);
  put(bytes, static_cast<std::uint64_t>(values.size()));
  bytes.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

[[nodiscard]] inline tl::unexpected<base::Error> cut_short(const char* what) {
  return base::fail(base::ErrorCode::kCorrupt, "{} is cut short", what);
}

/// Takes a value from the front of `bytes`; kCorrupt names `what` when there is not enough left.
template <class T>
base::Result<void> take(std::string_view& bytes, T& value, const char* what) {
  static_assert(std::is_trivially_copyable_v<T>);
  if (bytes.size() < sizeof value) return cut_short(what);
  std::memcpy(&value, bytes.data(), sizeof value);
  bytes.remove_prefix(sizeof value);
  return {};
}

/// The count is checked against the bytes that are left before anything is allocated.
template <class T>
base::Result<void> take_vector(std::string_view& bytes, std::vector<T>& values, const char* what) {
  std::uint64_t count = 0;
  SF_TRY(take(bytes, count, what));
  if (count > bytes.size() / sizeof(T)) return cut_short(what);
  values.resize(count);
  if (count > 0) std::memcpy(values.data(), bytes.data(), count * sizeof(T));
  bytes.remove_prefix(count * sizeof(T));
  return {};
}

}  // namespace sirenfeed::trainer
