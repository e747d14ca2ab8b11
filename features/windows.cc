// The join's windows: they close in order (T, offset), and each closing makes an example.
#include <tuple>

#include "features/applier.h"
#include "features/outbox_value.h"

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

// The open impression whose stage ends first, by (end, T, offset); null: none ends before the
// watermark.
Pending* Applier::next_due(PartitionState& state, base::UnixMs watermark) {
  Pending* next = nullptr;
  std::tuple<base::UnixMs, PendingSet::Place> next_end;
  for (std::size_t stage = 0; stage < windows_.stages().size(); ++stage) {
    Pending* first = state.pending.first(stage);
    if (first == nullptr) continue;
    const std::tuple end(first->time_ms + windows_.stages()[stage].window_ms,
                         PendingSet::Place(first->time_ms, first->offset));
    if (std::get<0>(end) >= watermark || (next != nullptr && next_end < end)) continue;
    next = first;
    next_end = end;
  }
  return next;
}

base::Result<std::uint64_t> Applier::close_until(PartitionState& state, base::UnixMs watermark) {
  std::uint64_t closed = 0;
  while (Pending* next = next_due(state, watermark)) {
    SF_TRY(close(state, *next));
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
  put_outbox({ingest::Topic::kExamples, state.partition}, example.sequence(),
             {example.time_ms(), example.user_id(), example.SerializeAsString()});
  remember_example(example);
}

// An earlier store has sent it. Revision 0 leaves in the order of the ends of windows; with fake
// negatives in that of the impressions.
bool Applier::muted(PartitionState& state, const Pending& pending, base::UnixMs closed_ms) {
  if (!state.mute_until) return false;
  const LeavingRank now = rank_of(config_.join, closed_ms, pending.time_ms, pending.offset);
  const LeavingRank until = rank_of(config_.join, state.mute_closed_ms, state.mute_until->first,
                                    state.mute_until->second);
  if (now >= until) state.mute_until.reset();
  return now <= until;
}

// Of revision 0 the tasks `tasks`, which have not left before.
void Applier::leave(PartitionState& state, Pending& pending, std::uint32_t tasks,
                    base::UnixMs closed_ms, Example example) {
  std::vector<std::uint64_t> types;
  for (const PendingItem& item : pending.items) types.push_back(item.types);
  builder_.set_labels(types, tasks, closed_ms, example);
  state.dirty = true;
  pending.left |= tasks;
  const bool complete = pending.left == windows_.all_tasks();
  if (complete) {
    ++state.impressions.left;
    state.pending.complete(pending);
    ++(!example.recomputed()          ? counts_.inputs_served
       : example.request_id().empty() ? counts_.inputs_unnamed
                                      : counts_.inputs_unmatched);
  }
  const bool sent = muted(state, pending, closed_ms);
  if (!sent) {
    for (Example& part : builder_.split(std::move(example), tasks)) send(state, part);
  }
  if (complete) ++(sent ? counts_.muted : counts_.examples);
}

base::Result<void> Applier::close(PartitionState& state, Pending& pending) {
  const base::UnixMs window_ms = windows_.stages()[pending.stage].window_ms;
  const bool last = windows_.last(pending.stage);
  const std::uint32_t tasks =
      (last ? windows_.all_tasks() : windows_.stages()[pending.stage].tasks) & ~pending.left;
  // What a correction starts from: without labels.
  const bool kept =
      last && config_.corrections.enabled && pending.time_ms >= retention_floor(state);
  std::string unlabelled;
  const bool unwritten = !pending.stored || pending.example_dirty;
  if (tasks != 0 || (kept && unwritten)) {
    SF_ASSIGN(auto example, example_of(state, pending, last));
    if (kept && unwritten) unlabelled = example->SerializeAsString();
    if (tasks != 0) {
      leave(state, pending, tasks, pending.time_ms + window_ms + 1, std::move(*example));
    }
  }
  if (!last) {
    state.pending.to_next_stage(pending);
    labels_changed(state, pending);
    return {};
  }
  if (kept) {
    retain(state, pending, std::move(unlabelled));
    return {};
  }
  return drop_pending(state, pending);
}

// Without labels; `take` it from memory where it is not needed any more.
base::Result<std::unique_ptr<Example>> Applier::example_of(const PartitionState& state,
                                                           Pending& pending, bool take) {
  if (pending.example == nullptr) {
    return stored_example(state.partition, {pending.time_ms, pending.offset});
  }
  if (take) return std::move(pending.example);
  return std::make_unique<Example>(*pending.example);
}

void Applier::labels_changed(PartitionState& state, Pending& pending) {
  if (!pending.stored || pending.labels_dirty) return;  // it is to be written already
  state.unstored.emplace_back(pending.time_ms, pending.offset);
  pending.labels_dirty = true;
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
    if (!pending->stored || pending->example_dirty) {
      const std::string bytes = pending->example->SerializeAsString();
      state.pending.set_example_bytes(*pending, 2 * bytes.size());
      batch_.put(Family::kState,
                 pending_key(state.partition, kPendingLetter, place.first, place.second), bytes);
      pending->stored = true;
      pending->example_dirty = false;
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
