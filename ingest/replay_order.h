#pragma once
// Puts the records of a replay into merge order. Internal to the replay readers.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "ingest/event_json.h"
#include "ingest/replay_reader.h"

namespace sirenfeed::ingest {

/// Records go in as the input names them and come out by (timestamp, topic, order of going in).
/// Threads: one.
class ReplayOrder {
 public:
  void push(ReplayRecord record) {
    heap_.push_back({std::move(record), pushed_++});
    std::push_heap(heap_.begin(), heap_.end(), after);
  }
  /// The event as a publisher would send it.
  void push(const EventBody& body) {
    push(ReplayRecord{event_topic(body), event_key(body), event_json(body), event_time_ms(body)});
  }
  /// The first record, if it is earlier than `time_ms`: nothing before it can come any more when
  /// everything that comes is of `time_ms` or later. nullopt as `time_ms`: nothing comes any more.
  std::optional<ReplayRecord> pop_before(std::optional<base::UnixMs> time_ms) {
    if (heap_.empty()) return std::nullopt;
    if (time_ms && heap_.front().record.time_ms >= *time_ms) return std::nullopt;
    std::pop_heap(heap_.begin(), heap_.end(), after);
    std::optional<ReplayRecord> record(std::move(heap_.back().record));
    heap_.pop_back();
    return record;
  }
  void clear() { heap_.clear(); }

 private:
  struct Entry {
    ReplayRecord record;
    std::uint64_t order = 0;
  };
  static bool after(const Entry& a, const Entry& b) {
    return std::tie(a.record.time_ms, a.record.topic, a.order) >
           std::tie(b.record.time_ms, b.record.topic, b.order);
  }

  std::vector<Entry> heap_;
  std::uint64_t pushed_ = 0;
};

}  // namespace sirenfeed::ingest
