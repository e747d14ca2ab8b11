#include "ingest/topics_admin.h"

#include <fmt/format.h>

#include <algorithm>

namespace sirenfeed::ingest {

base::Result<void> TopicsConfig::validate() const {
  const auto wrong = [](std::string_view field, std::string_view expected) {
    return base::fail(base::ErrorCode::kInvalidArgument, "{}: expected {}", field, expected);
  };
  if (partitions < 1 || partitions > 10'000) return wrong("partitions", "1 to 10000");
  if (items_partitions < 1 || items_partitions > 10'000) {
    return wrong("items_partitions", "1 to 10000");
  }
  if (replication_factor < 1) return wrong("replication_factor", "1 or more");
  if (retention.count() < 0) return wrong("retention", "hours, or 0 for unlimited");
  if (message_bytes_max < 1'000) return wrong("message_bytes_max", "1000 or more");
  return {};
}

base::Result<Partition> check_copartitioned(EventLog& log) {
  std::string counts;
  std::optional<Partition> common;
  bool equal = true;
  for (const Topic topic :
       {Topic::kImpressions, Topic::kClicks, Topic::kUsers, Topic::kRequests, Topic::kExamples}) {
    SF_ASSIGN(const Partition count, log.partitions(topic));
    equal = equal && count == common.value_or(count);
    common = common.value_or(count);
    fmt::format_to(std::back_inserter(counts), "{}{} {}", counts.empty() ? "" : ", ",
                   topic_name(topic), count);
  }
  if (!equal) {
    return base::fail(base::ErrorCode::kCorrupt,
                      "topics must have the same number of partitions, but have: {}", counts);
  }
  return *common;
}

}  // namespace sirenfeed::ingest
