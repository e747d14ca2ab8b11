// The join's windows: they close in order (T, offset), and each closing makes an example.
#include "features/applier.h"
#include "features/encode.h"

namespace sirenfeed::features {

base::Result<void> Applier::advance(PartitionState& state, base::UnixMs time) {
  if (state.newest_ms && time <= *state.newest_ms) {
    // A late impression may have a window that is over already.
    SF_TRY(close_until(state, watermark(state)));
    return {};
  }
  state.newest_ms = time;
  state.dirty = true;
  SF_TRY(close_until(state, watermark(state)));
  return {};
}

base::Result<std::uint64_t> Applier::close_until(PartitionState& state, base::UnixMs watermark) {
  std::uint64_t closed = 0;
  while (Pending* first = state.pending.first()) {
    if (first->time_ms >= watermark - config_.join.window_ms) break;
    SF_TRY(close(state, *first));
    ++closed;
  }
  return closed;
}

base::Result<std::unique_ptr<Example>> Applier::stored_example(ingest::Partition partition,
                                                               PendingSet::Place place) {
  SF_ASSIGN(const auto value, store_.get(Family::kState, pending_key(partition, kPendingLetter,
                                                                     place.first, place.second)));
  auto example = std::make_unique<Example>();
  if (!value || !example->ParseFromString(*value)) {
    return base::fail(base::ErrorCode::kCorrupt,
                      "the pending example of impressions/{} offset {} cannot be decoded; "
                      "`sirenfeed rebuild` makes the state anew",
                      partition, place.second);
  }
  return example;
}

// Gives the example its place in the order of learning.
void Applier::send(PartitionState& state, Example& example) {
  example.set_epoch(state.epoch);
  example.set_sequence(++state.last_sequence);
  state.dirty = true;
  if (wiring_.observer != nullptr) wiring_.observer->on_closed(example);
  if (!config_.outbox) return;
  std::string value;
  Encoder out(value);
  out.zigzag(example.time_ms());
  out.bytes(example.user_id());
  out.bytes(example.SerializeAsString());
  put_outbox({ingest::Topic::kExamples, state.partition}, example.sequence(), value);
  remember_example(example);
}

base::Result<void> Applier::close(PartitionState& state, Pending& pending) {
  const PendingSet::Place place(pending.time_ms, pending.offset);
  std::unique_ptr<Example> example = std::move(pending.example);
  if (example == nullptr) {
    SF_ASSIGN(example, stored_example(state.partition, place));
  }
  // What a correction starts from: without labels.
  const bool kept = config_.corrections.enabled && pending.time_ms >= retention_floor(state);
  std::string unlabelled = kept && !pending.stored ? example->SerializeAsString() : "";
  std::vector<std::uint64_t> types;
  for (const PendingItem& item : pending.items) types.push_back(item.types);
  builder_.set_labels(types, pending.time_ms + config_.join.window_ms + 1, *example);
  state.dirty = true;
  bool sent = false;
  if (state.mute_until) {
    sent = place <= *state.mute_until;
    if (place >= *state.mute_until) state.mute_until.reset();
  }
  if (sent) {
    ++counts_.muted;
  } else {
    for (Example& part : builder_.split(std::move(*example))) send(state, part);
    ++counts_.examples;
  }
  if (kept) {
    retain(state, pending, std::move(unlabelled));
    return {};
  }
  return drop_pending(state, pending);
}

base::Result<void> Applier::drop_pending(PartitionState& state, Pending& pending) {
  if (pending.stored) {
    for (const char letter : {kPendingLetter, kLabelsLetter}) {
      batch_.erase(Family::kState,
                   pending_key(state.partition, letter, pending.time_ms, pending.offset));
    }
  }
  state.pending.remove(pending);
  return {};
}

// Impressions opened by the batch, or with new labels, that no later record of it has closed.
void Applier::write_pending(PartitionState& state) {
  for (const PendingSet::Place& place : state.unstored) {
    Pending* pending = state.pending.at(place);
    if (pending == nullptr) continue;
    if (!pending->stored) {
      const std::string bytes = pending->example->SerializeAsString();
      state.pending.set_example_bytes(*pending, 2 * bytes.size());
      batch_.put(Family::kState,
                 pending_key(state.partition, kPendingLetter, place.first, place.second), bytes);
      pending->stored = true;
    } else if (!pending->labels_dirty) {
      continue;
    }
    pending->labels_dirty = false;
    batch_.put(Family::kState,
               pending_key(state.partition, kLabelsLetter, place.first, place.second),
               encode_labels(*pending, config_.context.extended));
  }
}

base::Result<void> Applier::idle(ingest::Partition number) {
  SF_TRY(ensure_ready());
  PartitionState& state = partition(number);
  const base::UnixMs now = (wiring_.clock != nullptr ? *wiring_.clock : wall_clock_).now_ms();
  auto closed = close_until(state, now - config_.join.lateness_max_ms);
  if (!closed) return rollback(std::move(closed).error());
  counts_.idle_closed += *closed;
  if (auto done = expire_held(state, /*all=*/false); !done) {
    return rollback(std::move(done).error());
  }
  return commit();
}

base::Result<void> Applier::close_windows(ingest::Partition number) {
  SF_TRY(ensure_ready());
  PartitionState& state = partition(number);
  if (auto done = expire_held(state, /*all=*/true); !done) {
    return rollback(std::move(done).error());
  }
  if (auto closed = close_until(state, INT64_MAX); !closed) {
    return rollback(std::move(closed).error());
  }
  return commit();
}

}  // namespace sirenfeed::features
