#pragma once
#include <chrono>
#include <cstddef>
#include <map>
#include <string>

#include "base/result.h"

namespace sirenfeed::ingest {

struct KafkaConfig {
  std::string brokers = "127.0.0.1:9092";  // host:port, comma separated
  std::string topic_prefix;                // put before every topic's name
  std::string client_id = "sirenfeed";
  /// Any further property of librdkafka (security.protocol, sasl.*, ssl.*, …) for every client;
  /// those that the guarantees rest on (see reserved_property) are refused.
  std::map<std::string, std::string> properties;
  std::size_t message_bytes_max = 1'000'000;  // key and value of one record; the broker's limit
                                              // (message.max.bytes) has to be at least this
  std::chrono::milliseconds connect_wait_max{10'000};  // for a first answer of a broker
  std::chrono::milliseconds fetch_wait_max{20};       // fetch.wait.max.ms: latency of an idle topic
  std::chrono::milliseconds session_timeout{45'000};  // of a group's member
  std::chrono::milliseconds linger{5};                // a writer's, to fill batches
  std::size_t queue_bytes_max = 64U << 20U;           // of one writer; and of one reader's fetches
  std::chrono::milliseconds queue_full_wait_max{5'000};
  /// Names the field, or the property.
  base::Result<void> validate() const;
};

/// `properties` on one line for the log, with secrets masked.
[[nodiscard]] std::string masked_properties(const KafkaConfig& config);

}  // namespace sirenfeed::ingest
