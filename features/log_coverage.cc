#include "features/log_coverage.h"

namespace sirenfeed::features {

base::Result<void> check_log_covers(FeatureState& state, ingest::EventLog& log) {
  for (const ingest::Topic topic : kInputTopics) {
    SF_ASSIGN(const ingest::Partition partitions, log.partitions(topic));
    for (ingest::Partition p = 0; p < partitions; ++p) {
      SF_ASSIGN(const auto applied, state.position({topic, p}));
      if (!applied) continue;
      SF_ASSIGN(const auto bounds, log.bounds({topic, p}));
      if (applied->offset < bounds.next) continue;
      return base::fail(base::ErrorCode::kCorrupt,
                        "the state in {} is ahead of the log: it has applied {}/{} offset {}, the "
                        "log ends before "
                        "{}. Put the log's folder back, or `sirenfeed rebuild` makes the state "
                        "anew from this log",
                        state.config().store.dir, ingest::topic_name(topic), p, applied->offset,
                        bounds.next);
    }
  }
  return {};
}

}  // namespace sirenfeed::features
