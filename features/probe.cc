#include "features/probe.h"

#include <string>

namespace sirenfeed::features {
namespace {
constexpr auto kReasons = static_cast<std::size_t>(ingest::RejectReason::kUndecodable) + 1;

base::Counter records(base::MetricsRegistry& registry, const char* outcome) {
  return registry.counter("sirenfeed_features_records_total",
                          "Records past the stored position, by what became of them",
                          {{"outcome", outcome}});
}
base::Counter actions(base::MetricsRegistry& registry, const char* joined) {
  return registry.counter("sirenfeed_features_actions_total",
                          "Applied actions, by how they joined an impression",
                          {{"joined", joined}});
}
}  // namespace

FeaturesProbe::FeaturesProbe(base::MetricsRegistry& registry)
    : in(records(registry, "in")),
      applied(records(registry, "applied")),
      duplicate(records(registry, "duplicate")),
      replayed(registry.counter("sirenfeed_features_records_replayed_total",
                                "Records read again at or before the stored position")),
      out_of_order(registry.counter("sirenfeed_features_records_out_of_order_total",
                                    "Records applied after one with a later time")),
      impressions(registry.counter("sirenfeed_features_impressions_total", "Applied impressions")),
      exposures(registry.counter("sirenfeed_features_exposures_total", "Items shown in them")),
      actions_attributed(actions(registry, "attributed")),
      actions_late(actions(registry, "late")),
      actions_unattributed(actions(registry, "unattributed")),
      examples(registry.counter("sirenfeed_features_examples_total",
                                "Impressions whose window closed (revision 0)")),
      corrections(registry.counter("sirenfeed_features_corrections_total",
                                   "Examples corrected by a late action (revisions above 0)")),
      examples_muted(
          registry.counter("sirenfeed_features_examples_muted_total",
                           "Impressions whose window closed and that an earlier state had sent")),
      impressions_erased(
          registry.counter("sirenfeed_features_impressions_erased_total",
                           "Impressions whose window was open when their user was erased")),
      windows_idle_closed(registry.counter("sirenfeed_features_windows_idle_closed_total",
                                           "Windows closed by the clock on an idle stream")),
      outbox_sent(registry.counter("sirenfeed_features_outbox_sent_total",
                                   "Outbox entries that the log acknowledged")),
      outbox_resent(registry.counter("sirenfeed_features_outbox_writers_replaced_total",
                                     "Producers made anew after a failed delivery")),
      outbox_entries(registry.gauge("sirenfeed_features_outbox_entries",
                                    "Outbox entries not yet acknowledged")),
      pending(registry.gauge("sirenfeed_features_pending_impressions",
                             "Impressions whose window is open")),
      retained(registry.gauge("sirenfeed_features_retained_impressions",
                              "Closed impressions that a late action can correct")),
      held(registry.gauge("sirenfeed_features_held_records",
                          "Records held because they are far ahead of the watermark")),
      user_cache_bytes(registry.gauge("sirenfeed_features_user_cache_bytes",
                                      "Decoded users in the applying thread")),
      apply_seconds(registry.histogram("sirenfeed_features_apply_seconds",
                                       "Time to apply and commit one batch", {},
                                       base::latency_buckets_s())) {
  for (std::size_t i = 0; i < kReasons; ++i) {
    const auto reason = static_cast<ingest::RejectReason>(i);
    rejected_.push_back(
        registry.counter("sirenfeed_features_records_rejected_total",
                         "Records past the stored position that were refused, by reason",
                         {{"reason", std::string(ingest::reject_reason_name(reason))}}));
  }
}

std::uint64_t FeaturesProbe::rejected_total() const {
  std::uint64_t total = 0;
  for (const base::Counter& counter : rejected_) total += counter.value();
  return total;
}

}  // namespace sirenfeed::features
