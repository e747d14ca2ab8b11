#pragma once
// The topics of a Kafka cluster: made by `sirenfeed topics create`, checked at start.
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "ingest/event_log.h"
#include "ingest/kafka_config.h"

namespace sirenfeed::ingest {

struct TopicsConfig {
  Partition partitions = 4;        // impressions, clicks, users, requests and examples
  Partition items_partitions = 1;  // items; dead-letters have one
  std::int16_t replication_factor = 1;
  /// By the record's own time, which for a replay is the past: Kafka drops what is older within
  /// minutes of its arrival. 0: unlimited. items and users are compacted instead.
  std::chrono::hours retention{0};
  std::size_t message_bytes_max = 1'048'588;  // max.message.bytes
  base::Result<void> validate() const;
};

struct TopicDescription {
  Topic topic = Topic::kItems;
  std::string name;          // with the prefix
  Partition partitions = 0;  // 0: does not exist
  std::int16_t replication_factor = 0;
  bool created = false;  // by this call
};

/// Makes the topics that do not exist; those that do are left as they are (described, and logged
/// where their partition count differs from `topics`). Waits until the cluster serves them.
[[nodiscard]] base::Result<std::vector<TopicDescription>> create_topics(const KafkaConfig& kafka,
                                                                        const TopicsConfig& topics);
[[nodiscard]] base::Result<std::vector<TopicDescription>> describe_topics(const KafkaConfig& kafka);

/// impressions, clicks, users, requests and examples must have the same number of partitions:
/// returns it, or kCorrupt naming every topic with its count.
[[nodiscard]] base::Result<Partition> check_copartitioned(EventLog& log);

}  // namespace sirenfeed::ingest
