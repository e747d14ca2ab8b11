#pragma once
// What ingest tells the outside world. Applied and duplicate records are counted by the state,
// which alone knows; in = applied + rejected + duplicate + still buffered.
#include <array>
#include <cstdint>

#include "base/metrics.h"
#include "ingest/event_sink.h"
#include "ingest/topic.h"

namespace sirenfeed::ingest {

/// Threads: any.
class IngestProbe {
 public:
  explicit IngestProbe(base::MetricsRegistry& registry);

  void record_read(const InputRecord& record) const;  // counts it and what the parser found
  void batch_applied(double seconds) const;
  void apply_failed() const { apply_failures_.add(); }
  void out_of_order(std::uint64_t records) const { out_of_order_.add(records); }
  void buffered(std::size_t records, std::size_t bytes) const;
  void lag(std::uint64_t events) const { lag_.set(static_cast<double>(events)); }
  void broker_up(bool up) const { broker_up_.set(up ? 1 : 0); }
  void stopped_partitions(std::size_t n) const { stopped_.set(static_cast<double>(n)); }

  [[nodiscard]] std::uint64_t records_in() const;
  [[nodiscard]] std::uint64_t rejected(RejectReason reason) const;

 private:
  static constexpr std::size_t kInputTopics = 5;  // items … clicks
  static constexpr std::size_t kReasons = static_cast<std::size_t>(RejectReason::kUndecodable) + 1;
  template <std::size_t N>
  using Counters = std::array<base::Counter, N>;

  Counters<kInputTopics> records_;
  Counters<kReasons> rejected_;
  base::Counter unknown_fields_;
  base::Counter repeated_items_;
  base::Counter out_of_order_;
  base::Counter apply_failures_;
  base::Histogram apply_seconds_;
  base::Gauge buffered_records_;
  base::Gauge buffered_bytes_;
  base::Gauge lag_;
  base::Gauge broker_up_;
  base::Gauge stopped_;
};

}  // namespace sirenfeed::ingest
