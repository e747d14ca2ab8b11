#pragma once
#include <array>
#include <cstddef>

#include "base/metrics.h"
#include "ingest/event_sink.h"

namespace sirenfeed::features {

/// What the state counts. in = applied + rejected + duplicate, of records past the stored position;
/// records that a restart reads again are `replayed` and in none of the others. Counters move when
/// the batch is committed. Thread-safe.
struct FeaturesProbe {
  explicit FeaturesProbe(base::MetricsRegistry& registry);

  base::Counter in;
  base::Counter applied;
  base::Counter duplicate;
  base::Counter replayed;
  base::Counter out_of_order;
  base::Counter impressions;
  base::Counter exposures;  // shown items
  base::Counter actions_attributed;
  base::Counter actions_late;          // their window had closed
  base::Counter actions_unattributed;  // joined nothing
  // impressions = examples + muted + erased + pending (of one process that starts with none).
  base::Counter examples;            // revision 0, parts counted once
  base::Counter corrections;         // revisions above 0
  base::Counter examples_muted;      // closed, but sent by an earlier store
  base::Counter impressions_erased;  // their window was open
  base::Counter windows_idle_closed;
  base::Counter outbox_sent;
  base::Counter outbox_resent;  // producer recreated
  base::Gauge outbox_entries;   // written and not yet acknowledged
  base::Gauge pending;          // impressions with an open window
  base::Gauge retained;         // closed impressions that can be corrected
  base::Gauge held;             // records ahead of event_jump_max
  base::Gauge user_cache_bytes;
  base::Histogram apply_seconds;

  void rejected(ingest::RejectReason reason, std::uint64_t n = 1) const {
    rejected_.at(static_cast<std::size_t>(reason)).add(n);
  }
  [[nodiscard]] std::uint64_t rejected_total() const;

 private:
  std::vector<base::Counter> rejected_;  // by RejectReason
};

}  // namespace sirenfeed::features
