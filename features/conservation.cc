// What became of every record and impression since the store began, for /metrics and tests.
#include "features/applier.h"

namespace sirenfeed::features {

ImpressionCounts Applier::impressions() const {
  ImpressionCounts total;
  for (const auto& [number, state] : partitions_) {
    total.accepted += state.impressions.accepted;
    total.left += state.impressions.left;
    total.pending += state.pending.waiting();
    total.erased += state.impressions.erased;
  }
  return total;
}

// What the store has counted since it began, so that the equations hold over restarts.
void Applier::report_state() const {
  const ImpressionCounts impressions = this->impressions();
  probe_.pending.set(static_cast<double>(impressions.pending));
  probe_.state_accepted.set(static_cast<double>(impressions.accepted));
  probe_.state_left.set(static_cast<double>(impressions.left));
  probe_.state_pending.set(static_cast<double>(impressions.pending));
  probe_.state_erased.set(static_cast<double>(impressions.erased));
  Conservation records;
  for (const auto& [source, position] : positions_) {
    records.in += position.counts.in;
    records.applied += position.counts.applied;
    records.rejected += position.counts.rejected;
    records.duplicate += position.counts.duplicate;
  }
  probe_.state_in.set(static_cast<double>(records.in));
  probe_.state_applied.set(static_cast<double>(records.applied));
  probe_.state_rejected.set(static_cast<double>(records.rejected));
  probe_.state_duplicate.set(static_cast<double>(records.duplicate));
}

}  // namespace sirenfeed::features
