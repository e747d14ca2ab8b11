#include "serving/candidate.h"

#include <fmt/format.h>

namespace sirenfeed::serving {

std::string item_name(const Candidate& candidate) {
  return candidate.info ? candidate.info->id : fmt::format("#{:016x}", candidate.item);
}

}  // namespace sirenfeed::serving
