#pragma once
// The topics, their partitions and the order in which records of one timestamp are applied.
#include <compare>
#include <cstdint>
#include <optional>
#include <string_view>

namespace sirenfeed::ingest {

/// Declared in merge order: of several records with one timestamp, items come first.
enum class Topic : std::uint8_t {
  kItems,
  kUsers,
  kRequests,
  kImpressions,
  kClicks,
  kExamples,     // protobuf, features → trainer
  kDeadLetters,  // rejected records
};

/// "items", "impressions", … : the name on the wire before any configured prefix.
[[nodiscard]] std::string_view topic_name(Topic topic) noexcept;
[[nodiscard]] std::optional<Topic> topic_from_name(std::string_view name) noexcept;

using Partition = std::int32_t;
using Offset = std::int64_t;

struct TopicPartition {
  Topic topic = Topic::kItems;
  Partition partition = 0;
  friend auto operator<=>(const TopicPartition&, const TopicPartition&) = default;
};

/// "impressions/1" stands in `message`, with whatever topic prefix, and is not the beginning of
/// "impressions/12": how an error of a reader tells which partition it is about.
[[nodiscard]] bool names(std::string_view message, TopicPartition source);

/// (murmur2(key) & 0x7fffffff) mod partitions, as Kafka's Java clients do.
[[nodiscard]] Partition partition_of(std::string_view key, Partition partitions) noexcept;

}  // namespace sirenfeed::ingest
