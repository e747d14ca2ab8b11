// Late actions: what is kept of a closed impression, and the further revisions of its example.
#include <algorithm>

#include "base/check.h"
#include "features/applier.h"

namespace sirenfeed::features {

// Impressions before it can no longer be corrected, whether or not they lie in the store still.
base::UnixMs Applier::retention_floor(const PartitionState& state) const {
  return watermark(state) - windows_.longest() - config_.corrections.retention_ms;
}

// The closed impression moves from the pending ones to the retained ones. `example`: as it is to be
// stored, empty where it is.
void Applier::retain(PartitionState& state, Pending& pending, std::string example) {
  const PendingSet::Place place(pending.time_ms, pending.offset);
  if (pending.stored) {
    batch_.erase(Family::kState,
                 pending_key(state.partition, kLabelsLetter, place.first, place.second));
  }
  Retained retained;
  retained.impression.time_ms = pending.time_ms;
  retained.impression.offset = pending.offset;
  retained.impression.user_id = pending.user_id;
  retained.impression.id = pending.id;
  retained.impression.surface = pending.surface;
  retained.impression.items = std::move(pending.items);
  retained.revision = pending.revision;
  retained.example = std::move(example);
  retained.dirty = true;
  state.pending.remove(pending);
  state.retained.places.insert(place);
  state.retained.loaded.insert_or_assign(place, std::move(retained));
  expire_retained(state);  // what is gone by time takes nobody's place, whenever it is removed
  if (state.retained.places.size() > config_.corrections.retained_max) {
    forget_retained(state, *state.retained.places.begin());
  }
}

// Null: not retained, or not any more.
base::Result<Retained*> Applier::retained_at(PartitionState& state, PendingSet::Place place) {
  if (place.first < retention_floor(state) || !state.retained.places.contains(place)) {
    return nullptr;
  }
  const auto found = state.retained.loaded.find(place);
  if (found != state.retained.loaded.end()) return &found->second;
  SF_ASSIGN(const auto value,
            store_.get(Family::kState,
                       pending_key(state.partition, kRetainedLetter, place.first, place.second)));
  SF_ASSIGN(Retained retained, decode_retained(value.value_or("")));
  retained.impression.time_ms = place.first;
  retained.impression.offset = place.second;
  return &state.retained.loaded.emplace(place, std::move(retained)).first->second;
}

// The next revision, where the label of the joined cell has left already: nothing but the cells of
// `type` is unmasked.
base::Result<void> Applier::correct(PartitionState& state, const Joined& joined, ActionType type,
                                    base::UnixMs time) {
  Pending& impression = *joined.pending;
  const std::uint32_t tasks = builder_.tasks_of(type);
  if (tasks == 0 || (joined.retained == nullptr && (impression.left & tasks) == 0)) return {};
  std::unique_ptr<Example> example;
  if (joined.retained == nullptr) {
    SF_ASSIGN(example, example_of(state, impression, /*take=*/false));
    labels_changed(state, impression);
  } else if (joined.retained->example.empty()) {
    SF_ASSIGN(example, stored_example(state.partition, {impression.time_ms, impression.offset}));
  } else {
    example = std::make_unique<Example>();
    SF_CHECK(example->ParseFromString(joined.retained->example));
  }
  std::vector<std::uint64_t> types;
  for (const PendingItem& shown : impression.items) types.push_back(shown.types);
  const base::UnixMs window_ms =
      config_.join.per_task_close ? windows_.of(type) : windows_.longest();
  const base::UnixMs closed_ms =
      config_.join.fake_negatives ? time : impression.time_ms + window_ms + 1;
  builder_.set_labels(types, tasks, closed_ms, *example);
  builder_.mask_all_but(joined.cell->item, *example);
  std::uint32_t& revision =
      joined.retained != nullptr ? joined.retained->revision : impression.revision;
  example->set_revision(++revision);
  if (state.mute_until || state.mute_corrections > 0) {
    // An earlier store has sent it.
    if (!state.mute_until) --state.mute_corrections;
    state.dirty = true;
    return {};
  }
  for (Example& part : builder_.split(std::move(*example), windows_.all_tasks())) {
    const auto& candidates = part.candidates();
    const bool changes = std::any_of(candidates.begin(), candidates.end(),
                                     [](const auto& shown) { return shown.mask_bits() != 0; });
    if (changes) send(state, part);
  }
  ++counts_.corrections;
  return {};
}

void Applier::forget_retained(PartitionState& state, PendingSet::Place place) {
  for (const char letter : {kPendingLetter, kRetainedLetter}) {
    batch_.erase(Family::kState, pending_key(state.partition, letter, place.first, place.second));
  }
  state.retained.loaded.erase(place);
  state.retained.places.erase(place);
}

void Applier::expire_retained(PartitionState& state) {
  const base::UnixMs floor = retention_floor(state);
  auto& places = state.retained.places;
  while (!places.empty() && places.begin()->first < floor) {
    forget_retained(state, *places.begin());
  }
}

// An erasure is rare: the store is searched, instead of an index in memory.
base::Result<void> Applier::forget_retained_of(PartitionState& state, std::string_view user_id) {
  std::vector<PendingSet::Place> gone;
  base::Result<void> decoded;
  SF_TRY(store_.scan(Family::kState, partition_prefix(state.partition, kRetainedLetter),
                     [&](std::string_view key, std::string_view value) {
                       const auto retained = decode_retained(value);
                       if (!retained) {
                         decoded = base::fail(retained.error());
                         return false;
                       }
                       if (retained->impression.user_id == user_id) {
                         gone.push_back(pending_place(key));
                       }
                       return true;
                     }));
  SF_TRY(decoded);
  for (const auto& [place, retained] : state.retained.loaded) {
    if (retained.impression.user_id == user_id) gone.push_back(place);
  }
  for (const PendingSet::Place& place : gone) forget_retained(state, place);
  return {};
}

void Applier::write_retained(PartitionState& state) {
  expire_retained(state);
  for (const auto& [place, retained] : state.retained.loaded) {
    if (!retained.dirty) continue;
    batch_.put(Family::kState,
               pending_key(state.partition, kRetainedLetter, place.first, place.second),
               encode_retained(retained, config_.context.extended));
    if (retained.example.empty()) continue;
    batch_.put(Family::kState,
               pending_key(state.partition, kPendingLetter, place.first, place.second),
               retained.example);
  }
}

base::Result<void> Applier::load_retained(PartitionState& state) {
  return store_.scan(Family::kState, partition_prefix(state.partition, kRetainedLetter),
                     [&](std::string_view key, std::string_view) {
                       state.retained.places.insert(pending_place(key));
                       return true;
                     });
}

}  // namespace sirenfeed::features
