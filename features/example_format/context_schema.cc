#include "features/example_format/context_schema.h"

#include "base/hash.h"

namespace sirenfeed::features {

std::uint64_t schema_hash(std::span<const std::string> names) {
  std::string joined;
  for (const std::string& name : names) {
    joined += name;
    joined += '\n';
  }
  return base::xxh3_64(joined);
}

}  // namespace sirenfeed::features
