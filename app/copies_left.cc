#include "app/copies_left.h"

#include <fmt/format.h>

namespace sirenfeed::app {
namespace {

double days(base::UnixMs milliseconds) {
  return static_cast<double>(milliseconds) / static_cast<double>(base::kMsPerDay);
}

}  // namespace

std::vector<std::string> copies_left(const Settings& settings) {
  std::vector<std::string> lines;
  if (settings.brokers.empty()) {
    const ingest::EmbeddedLogConfig& log = settings.embedded;
    lines.push_back(fmt::format(
        "{}: topics impressions, clicks, requests, examples, dead-letters: until {} days after the "
        "last record of the segment, or sooner above {} bytes a partition",
        log.dir.string(), log.retention_age.count() / 24, log.retention_bytes));
    lines.push_back(fmt::format(
        "{}: topics users and items: kept whole, because a rebuild needs them", log.dir.string()));
  } else {
    lines.emplace_back(
        "Kafka: topics impressions, clicks, requests, examples, dead-letters: until their "
        "retention.ms ends");
    lines.emplace_back(
        "Kafka: topics users and items: until compaction has removed what came before this record");
  }
  lines.push_back(fmt::format(
      "state: hashes of the ids of impressions and events for {:g} days of event time, and the "
      "order itself (a user as a hash) for {:g} days",
      days(settings.features.join.dedup_horizon_ms),
      days(settings.features.join.tombstone_age_max_ms)));
  lines.emplace_back("state: deleted bytes in RocksDB's files until it compacts them");
  lines.emplace_back("model: what was learned, without ids; it fades as others are learned");
  lines.emplace_back("backups made before: until they are deleted");
  return lines;
}

}  // namespace sirenfeed::app
