#include "ingest/topic.h"

#include <array>
#include <cstddef>
#include <string>

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

bool names(std::string_view message, TopicPartition source) {
  const std::string name =
      std::string(topic_name(source.topic)) + '/' + std::to_string(source.partition);
  for (auto at = message.find(name); at != message.npos; at = message.find(name, at + 1)) {
    const std::size_t end = at + name.size();
    if (end == message.size() || message[end] < '0' || message[end] > '9') return true;
  }
  return false;
}

}  // namespace sirenfeed::ingest
