#include "ingest/kafka_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace sirenfeed::ingest {
namespace {

/// Offsets, order and exactly-once rest on these; each has a field of its own or one right value.
constexpr std::array kReserved = {"bootstrap.servers",
                                  "metadata.broker.list",
                                  "group.id",
                                  "group.instance.id",
                                  "enable.auto.commit",
                                  "enable.auto.offset.store",
                                  "auto.offset.reset",
                                  "enable.partition.eof",
                                  "fetch.wait.max.ms",
                                  "partition.assignment.strategy",
                                  "acks",
                                  "request.required.acks",
                                  "enable.idempotence",
                                  "enable.gapless.guarantee",
                                  "message.timeout.ms",
                                  "delivery.timeout.ms",
                                  "transactional.id",
                                  "partitioner",
                                  "message.max.bytes",
                                  "allow.auto.create.topics",
                                  "session.timeout.ms",
                                  "linger.ms",
                                  "queue.buffering.max.ms"};

bool is_secret(std::string_view property) {
  for (const std::string_view part : {"password", "secret", "key", "jaas", "oauth", "token"}) {
    if (property.find(part) != std::string_view::npos) return true;
  }
  return false;
}

}  // namespace

base::Result<void> KafkaConfig::validate() const {
  const auto wrong = [](std::string_view field, std::string_view expected) {
    return base::fail(base::ErrorCode::kInvalidArgument, "{}: expected {}", field, expected);
  };
  if (brokers.empty()) return wrong("brokers", "host:port, comma separated");
  if (message_bytes_max < 1'000 || message_bytes_max > 900'000'000) {
    return wrong("message_bytes_max", "1000 to 900000000");
  }
  if (connect_wait_max.count() < 1) return wrong("connect_wait_max", "1 ms or more");
  if (fetch_wait_max.count() < 0 || fetch_wait_max.count() > 20) {
    return wrong("fetch_wait_max", "0 to 20 ms: the end of an idle partition is told by a fetch");
  }
  if (session_timeout.count() < 1'000) return wrong("session_timeout", "1000 ms or more");
  if (linger.count() < 0 || linger.count() > 1'000) return wrong("linger", "0 to 1000 ms");
  if (queue_bytes_max < message_bytes_max || queue_bytes_max < (1U << 20U)) {
    return wrong("queue_bytes_max", "at least message_bytes_max and 1 MiB");
  }
  if (queue_full_wait_max.count() < 0) return wrong("queue_full_wait_max", "0 ms or more");
  for (const auto& [name, value] : properties) {
    if (std::ranges::find(kReserved, std::string_view(name)) != kReserved.end()) {
      return base::fail(base::ErrorCode::kInvalidArgument,
                        "Kafka property {}: is set by Sirenfeed and cannot be changed here", name);
    }
  }
  return {};
}

std::string masked_properties(const KafkaConfig& config) {
  std::string line;
  for (const auto& [name, value] : config.properties) {
    fmt::format_to(std::back_inserter(line), "{}{}={}", line.empty() ? "" : " ", name,
                   is_secret(name) ? "***" : value);
  }
  return line;
}

}  // namespace sirenfeed::ingest
