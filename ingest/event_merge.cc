#include "ingest/event_merge.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/check.h"

namespace sirenfeed::ingest {

base::Result<void> MergeConfig::validate() const {
  if (merge_wait_max && merge_wait_max->count() < 0) {
    return base::fail(base::ErrorCode::kInvalidArgument,
                      "merge_wait_max: expected at least 0 ms, got {}", merge_wait_max->count());
  }
  if (buffer_records_max == 0 || buffer_bytes_max == 0) {
    return base::fail(base::ErrorCode::kInvalidArgument, "{}: expected at least 1, got 0",
                      buffer_records_max == 0 ? "buffer_records_max" : "buffer_bytes_max");
  }
  return {};
}

EventMerge::EventMerge(MergeConfig config, const base::SteadyClock& steady)
    : config_(config), steady_(steady) {}

void EventMerge::add(TopicPartition input) {
  remove(input);
  inputs_.emplace(input, Input{});
  oldest_end_.reset();
}

void EventMerge::remove(TopicPartition input) {
  const auto found = inputs_.find(input);
  if (found == inputs_.end()) return;
  if (!found->second.buffer.empty()) heads_.erase(key_of(found->second.buffer.front().record));
  records_ -= found->second.buffer.size();
  bytes_ -= found->second.bytes;
  inputs_.erase(found);
  oldest_end_.reset();
}

EventMerge::Key EventMerge::key_of(const InputRecord& record) {
  const bool rejected = std::holds_alternative<Rejection>(record.content);
  return {rejected ? std::numeric_limits<base::UnixMs>::min() : record.time_ms, record.source,
          record.offset};
}

void EventMerge::push(InputRecord record) {
  const auto found = inputs_.find(record.source);
  if (found == inputs_.end()) return;
  Input& input = found->second;
  Entry entry;
  // The parsed event holds about as much again as the payload.
  entry.bytes = sizeof(Entry) + 2 * record.payload.size();
  entry.arrival = ++arrivals_;
  if (config_.merge_wait_max) entry.arrived_at = steady_.now();
  entry.record = std::move(record);
  if (input.buffer.empty()) {
    heads_.emplace(key_of(entry.record), &input);
    oldest_end_.reset();
  }
  input.bytes += entry.bytes;
  bytes_ += entry.bytes;
  ++records_;
  input.buffer.push_back(std::move(entry));
}

void EventMerge::at_end(TopicPartition input) {
  const auto found = inputs_.find(input);
  if (found == inputs_.end()) return;
  found->second.end_seen = arrivals_ + 1;  // after everything that has arrived
  oldest_end_.reset();
}

std::uint64_t EventMerge::oldest_end_of_empty_inputs() {
  if (!oldest_end_) {
    oldest_end_ = std::numeric_limits<std::uint64_t>::max();
    for (const auto& [source, input] : inputs_) {
      if (input.buffer.empty()) oldest_end_ = std::min(*oldest_end_, input.end_seen);
    }
  }
  return *oldest_end_;
}

bool EventMerge::may_hand_out(const Entry& head) {
  if (head.arrival < oldest_end_of_empty_inputs()) return true;
  if (std::holds_alternative<Rejection>(head.record.content)) return true;
  return config_.merge_wait_max && steady_.now() - head.arrived_at >= *config_.merge_wait_max;
}

void EventMerge::hand_out(std::vector<InputRecord>& out) {
  auto node = heads_.extract(heads_.begin());
  Input& input = *node.mapped();
  if (!std::holds_alternative<Rejection>(input.buffer.front().record.content)) {
    if (last_ && node.key() < *last_) {
      ++out_of_order_;
    } else {
      last_ = node.key();
    }
  }
  out.push_back(std::move(input.buffer.front().record));
  input.bytes -= input.buffer.front().bytes;
  bytes_ -= input.buffer.front().bytes;
  --records_;
  input.buffer.pop_front();
  if (input.buffer.empty()) {
    // It may have been the last one with records: its end counts from now on.
    if (oldest_end_) oldest_end_ = std::min(*oldest_end_, input.end_seen);
    return;
  }
  node.key() = key_of(input.buffer.front().record);
  heads_.insert(std::move(node));
}

std::size_t EventMerge::take(std::size_t records_max, std::size_t bytes_max,
                             std::vector<InputRecord>& out) {
  std::size_t taken = 0;
  std::size_t bytes = 0;
  while (taken < records_max && !heads_.empty()) {
    const Entry& head = heads_.begin()->second->buffer.front();
    bytes += head.bytes;
    if ((taken > 0 && bytes > bytes_max) || !may_hand_out(head)) break;
    hand_out(out);
    ++taken;
  }
  return taken;
}

std::optional<base::SteadyTime> EventMerge::next_deadline() const {
  if (!config_.merge_wait_max || heads_.empty()) return std::nullopt;
  return heads_.begin()->second->buffer.front().arrived_at + *config_.merge_wait_max;
}

bool EventMerge::full(TopicPartition input) const {
  const auto found = inputs_.find(input);
  return found != inputs_.end() && (found->second.buffer.size() >= config_.buffer_records_max ||
                                    found->second.bytes >= config_.buffer_bytes_max);
}

bool EventMerge::drained(TopicPartition input) const {
  const auto found = inputs_.find(input);
  return found == inputs_.end() || (found->second.buffer.size() <= config_.buffer_records_max / 2 &&
                                    found->second.bytes <= config_.buffer_bytes_max / 2);
}

}  // namespace sirenfeed::ingest
