#include "ingest/topic.h"

#include <array>
#include <cstddef>

namespace sirenfeed::ingest {
namespace {

constexpr std::array<std::string_view, 7> kNames = {
    "items", "users", "requests", "impressions", "clicks", "examples", "dead-letters"};

}  // namespace

std::string_view topic_name(Topic topic) noexcept {
  return kNames[static_cast<std::size_t>(topic)];
}

std::optional<Topic> topic_from_name(std::string_view name) noexcept {
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == name) return static_cast<Topic>(i);
  }
  return std::nullopt;
}

}  // namespace sirenfeed::ingest
