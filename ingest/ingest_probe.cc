#include "ingest/ingest_probe.h"

#include <string>
#include <utility>

namespace sirenfeed::ingest {
namespace {

template <std::size_t N, class Make>
std::array<base::Counter, N> make_counters(Make make) {
  return [&]<std::size_t... I>(std::index_sequence<I...>) {
    return std::array<base::Counter, N>{make(I)...};
  }
  (std::make_index_sequence<N>());
}

}  // namespace

IngestProbe::IngestProbe(base::MetricsRegistry& registry)
    : records_(make_counters<kInputTopics>([&](std::size_t topic) {
        return registry.counter("sirenfeed_ingest_records_total", "Records read, by topic",
                                {{"topic", std::string(topic_name(static_cast<Topic>(topic)))}});
      })),
      rejected_(make_counters<kReasons>([&](std::size_t reason) {
        return registry.counter(
            "sirenfeed_ingest_rejected_records_total", "Records that the parser rejected",
            {{"reason", std::string(reject_reason_name(static_cast<RejectReason>(reason)))}});
      })),
      unknown_fields_(registry.counter("sirenfeed_ingest_unknown_fields_total",
                                       "Fields of events that are not known and were left out")),
      repeated_items_(registry.counter("sirenfeed_ingest_repeated_items_total",
                                       "Items that an impression listed more than once")),
      out_of_order_(registry.counter("sirenfeed_ingest_out_of_order_records_total",
                                     "Records applied after a later one")),
      apply_failures_(registry.counter("sirenfeed_ingest_apply_failures_total",
                                       "Batches that the state refused and that were retried")),
      apply_seconds_(registry.histogram("sirenfeed_ingest_apply_seconds", "Time to apply one batch",
                                        {}, base::latency_buckets_s())),
      buffered_records_(
          registry.gauge("sirenfeed_ingest_buffered_records", "Records read and not yet applied")),
      buffered_bytes_(registry.gauge("sirenfeed_ingest_buffered_bytes",
                                     "Memory of the records read and not yet applied")),
      lag_(registry.gauge("sirenfeed_ingest_lag_records", "Records in the log, not yet applied")),
      broker_up_(registry.gauge("sirenfeed_ingest_broker_up", "1 while the log answers")),
      stopped_(registry.gauge("sirenfeed_ingest_stopped_partitions",
                              "Inputs that ended with an error")) {}

void IngestProbe::record_read(const InputRecord& record) const {
  const auto topic = static_cast<std::size_t>(record.source.topic);
  if (topic < kInputTopics) records_[topic].add();
  if (const auto* rejection = std::get_if<Rejection>(&record.content)) {
    rejected_[static_cast<std::size_t>(rejection->reason)].add();
  }
  if (record.unknown_fields > 0) unknown_fields_.add(record.unknown_fields);
  if (record.repeated_items > 0) repeated_items_.add(record.repeated_items);
}

void IngestProbe::batch_applied(double seconds) const { apply_seconds_.observe(seconds); }

void IngestProbe::buffered(std::size_t records, std::size_t bytes) const {
  buffered_records_.set(static_cast<double>(records));
  buffered_bytes_.set(static_cast<double>(bytes));
}

std::uint64_t IngestProbe::records_in() const {
  std::uint64_t sum = 0;
  for (const base::Counter& counter : records_) sum += counter.value();
  return sum;
}

std::uint64_t IngestProbe::rejected(RejectReason reason) const {
  return rejected_[static_cast<std::size_t>(reason)].value();
}

}  // namespace sirenfeed::ingest
