#include "base/hash.h"

#include <xxhash.h>

namespace sirenfeed::base {

std::uint64_t xxh3_64(std::string_view bytes) noexcept {
  return XXH3_64bits(bytes.data(), bytes.size());
}

}  // namespace sirenfeed::base
