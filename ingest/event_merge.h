#pragma once
// Makes one stream of several inputs: by (timestamp, topic, partition, offset). The smallest head
// is handed out as soon as every other input has a buffered record, or was read to its end after
// that head arrived, or the head has waited merge_wait_max.
//
// A rejected record has no time of its own that could be trusted: it follows the record before it
// in its input at once, so that one broken record holds nothing up.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "ingest/event_sink.h"
#include "ingest/topic.h"

namespace sirenfeed::ingest {

struct MergeConfig {
  std::optional<std::chrono::milliseconds> merge_wait_max{50};  // nullopt: unlimited, for replays
  std::size_t buffer_records_max = 10'000;                      // of one input; more: pause it
  std::size_t buffer_bytes_max = 16U << 20U;                    // of one input; more: pause it
  [[nodiscard]] base::Result<void> validate() const;
};

/// Threads: one.
class EventMerge {
 public:
  /// `steady` outlives the merge.
  EventMerge(MergeConfig config, const base::SteadyClock& steady);

  /// An input of its own; an input that is there already starts anew, empty.
  void add(TopicPartition input);
  /// Drops the input and what it has buffered.
  void remove(TopicPartition input);
  [[nodiscard]] bool has(TopicPartition input) const { return inputs_.contains(input); }

  /// The next record of its input, in offset order. A record of no input is dropped.
  void push(InputRecord record);
  /// `input` was read to its end, after everything pushed so far.
  void at_end(TopicPartition input);

  /// Appends records in merge order to `out`, as many as may be handed out now and the limits
  /// allow (the first one always). Returns how many.
  std::size_t take(std::size_t records_max, std::size_t bytes_max, std::vector<InputRecord>& out);

  /// When the smallest head will have waited long enough; nullopt: nothing is buffered, or the wait
  /// is unlimited.
  [[nodiscard]] std::optional<base::SteadyTime> next_deadline() const;

  /// Over a buffer limit: stop reading it. It may be read again once `drained`, at half the limits.
  [[nodiscard]] bool full(TopicPartition input) const;
  [[nodiscard]] bool drained(TopicPartition input) const;

  [[nodiscard]] bool empty() const noexcept { return heads_.empty(); }
  [[nodiscard]] std::size_t buffered_records() const noexcept { return records_; }
  [[nodiscard]] std::size_t buffered_bytes() const noexcept { return bytes_; }
  /// Records handed out after a later one.
  [[nodiscard]] std::uint64_t out_of_order() const noexcept { return out_of_order_; }

 private:
  struct Key {
    base::UnixMs time_ms = 0;
    TopicPartition source;
    Offset offset = 0;
    friend auto operator<=>(const Key&, const Key&) = default;
  };
  struct Entry {
    InputRecord record;
    std::size_t bytes = 0;
    std::uint64_t arrival = 0;
    base::SteadyTime arrived_at;
  };
  struct Input {
    std::deque<Entry> buffer;
    std::size_t bytes = 0;
    std::uint64_t end_seen = 0;  // arrival number of the latest at_end; 0: never
  };

  [[nodiscard]] static Key key_of(const InputRecord& record);
  [[nodiscard]] bool may_hand_out(const Entry& head);
  [[nodiscard]] std::uint64_t oldest_end_of_empty_inputs();
  void hand_out(std::vector<InputRecord>& out);

  const MergeConfig config_;
  const base::SteadyClock& steady_;
  std::map<TopicPartition, Input> inputs_;
  std::map<Key, Input*> heads_;  // of the inputs that have something buffered
  std::uint64_t arrivals_ = 0;
  std::optional<std::uint64_t> oldest_end_;  // cache of oldest_end_of_empty_inputs
  std::size_t records_ = 0;
  std::size_t bytes_ = 0;
  std::optional<Key> last_;
  std::uint64_t out_of_order_ = 0;
};

}  // namespace sirenfeed::ingest
