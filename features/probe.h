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
  base::Counter inputs_served;     // examples with what the model saw
  base::Counter inputs_unmatched;  // recomputed: the request is not held, or has other items
  base::Counter inputs_unnamed;    // recomputed: the impression names no request
  base::Counter requests_unfit;    // named, but of other features or items
  base::Counter requests_late;     // older than window and lateness when they came
  base::Counter requests_evicted;  // above requests_held_max
  base::Counter served_histories;  // that differ from the recomputed ones
  base::Histogram served_difference;
  base::Gauge held_requests;
  base::Counter outbox_sent;
  base::Counter outbox_resent;  // producer recreated
  base::Gauge outbox_entries;   // written and not yet acknowledged
  base::Gauge pending;          // impressions whose revision 0 has not left
  base::Gauge open_windows;     // impressions that actions still join
  base::Gauge retained;         // closed impressions that can be corrected
  base::Gauge held;             // records ahead of event_jump_max
  base::Gauge user_cache_bytes;
  // Since the store began: in = applied + rejected + duplicate, accepted = left + pending + erased.
  base::Gauge state_in;
  base::Gauge state_applied;
  base::Gauge state_rejected;
  base::Gauge state_duplicate;
  base::Gauge state_accepted;
  base::Gauge state_left;
  base::Gauge state_pending;
  base::Gauge state_erased;
  base::Histogram apply_seconds;

  void rejected(ingest::RejectReason reason, std::uint64_t n = 1) const {
    rejected_.at(static_cast<std::size_t>(reason)).add(n);
  }
  [[nodiscard]] std::uint64_t rejected_total() const;

 private:
  std::vector<base::Counter> rejected_;  // by RejectReason
};

}  // namespace sirenfeed::features
