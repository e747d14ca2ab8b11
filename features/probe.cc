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
base::Gauge state_records(base::MetricsRegistry& registry, const char* outcome) {
  return registry.gauge("sirenfeed_features_state_records",
                        "Records since the state began: in = applied + rejected + duplicate",
                        {{"outcome", outcome}});
}
base::Gauge state_impressions(base::MetricsRegistry& registry, const char* stage) {
  return registry.gauge("sirenfeed_features_state_impressions",
                        "Impressions since the state began: accepted = left + pending + erased",
                        {{"stage", stage}});
}
base::Counter inputs(base::MetricsRegistry& registry, const char* source) {
  return registry.counter("sirenfeed_features_example_inputs_total",
                          "Impressions that were learned, by where their inputs come from",
                          {{"source", source}});
}
/// Of a difference of features, most of which are log-odds.
std::vector<double> difference_buckets() {
  return {0, 1e-6, 1e-5, 1e-4, 1e-3, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3};
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
      inputs_served(inputs(registry, "served")),
      inputs_unmatched(inputs(registry, "recomputed_unmatched")),
      inputs_unnamed(inputs(registry, "recomputed_unnamed")),
      requests_unfit(registry.counter("sirenfeed_features_requests_unfit_total",
                                      "Named requests that could not be used: other "
                                      "features or items, malformed or newer")),
      requests_late(registry.counter("sirenfeed_features_requests_late_total",
                                     "Requests that came when no impression could name them")),
      requests_evicted(registry.counter("sirenfeed_features_requests_evicted_total",
                                        "Requests that left early, above requests_held_max")),
      served_histories(registry.counter("sirenfeed_features_served_histories_differ_total",
                                        "Served histories other than the recomputed ones")),
      served_difference(registry.histogram(
          "sirenfeed_features_served_difference",
          "Mean absolute difference of an example's served and recomputed features", {},
          difference_buckets())),
      held_requests(registry.gauge("sirenfeed_features_held_requests",
                                   "Served requests that wait for their impressions")),
      outbox_sent(registry.counter("sirenfeed_features_outbox_sent_total",
                                   "Outbox entries that the log acknowledged")),
      outbox_resent(registry.counter("sirenfeed_features_outbox_writers_replaced_total",
                                     "Producers made anew after a failed delivery")),
      outbox_entries(registry.gauge("sirenfeed_features_outbox_entries",
                                    "Outbox entries not yet acknowledged")),
      pending(registry.gauge("sirenfeed_features_pending_impressions",
                             "Impressions whose example has not left (revision 0)")),
      open_windows(
          registry.gauge("sirenfeed_features_open_windows", "Impressions that actions still join")),
      retained(registry.gauge("sirenfeed_features_retained_impressions",
                              "Closed impressions that a late action can correct")),
      held(registry.gauge("sirenfeed_features_held_records",
                          "Records held because they are far ahead of the watermark")),
      user_cache_bytes(registry.gauge("sirenfeed_features_user_cache_bytes",
                                      "Decoded users in the applying thread")),
      state_in(state_records(registry, "in")),
      state_applied(state_records(registry, "applied")),
      state_rejected(state_records(registry, "rejected")),
      state_duplicate(state_records(registry, "duplicate")),
      state_accepted(state_impressions(registry, "accepted")),
      state_left(state_impressions(registry, "left")),
      state_pending(state_impressions(registry, "pending")),
      state_erased(state_impressions(registry, "erased")),
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
