// An action: which exposure it answers, what it counts, and its place in the sequence.
#include "base/hash.h"
#include "features/applier.h"

namespace sirenfeed::features {

using ingest::RejectReason;

base::Result<void> Applier::join_late(PartitionState& state, PendingSet::Place place, Key item,
                                      Joined& joined) {
  SF_ASSIGN(joined.retained, retained_at(state, place));
  if (joined.retained != nullptr) {
    joined.pending = &joined.retained->impression;
    joined.cell = joined.pending->find(item);
  }
  joined.late = joined.cell != nullptr || joined.entry != nullptr;
  return {};
}

base::Result<Applier::Joined> Applier::join(PartitionState& state, CachedUser& user,
                                            const ingest::Action& event, Key item) {
  const base::UnixMs window = windows_.of(types_.intern(event.type));
  const auto within = [&](base::UnixMs shown) {
    return shown <= event.time_ms && event.time_ms - shown <= window;
  };
  Joined joined;
  if (!event.impression_id) {
    joined.entry = user.state.exposure_within(item, event.time_ms, window);
    joined.pending = joined.entry != nullptr
                         ? state.pending.at({joined.entry->time_ms, joined.entry->offset})
                         : state.pending.newest_within(event.user_id, item, event.time_ms, window);
    if (joined.pending != nullptr) {
      joined.cell = joined.pending->find(item);
    } else if (joined.entry != nullptr) {
      SF_TRY(join_late(state, {joined.entry->time_ms, joined.entry->offset}, item, joined));
    }
    return joined;
  }
  const IdHash id = id_hash(event.user_id, *event.impression_id);
  joined.pending = state.pending.find(event.user_id, id);
  if (joined.pending != nullptr) {
    joined.cell = joined.pending->find(item);
    if (joined.cell == nullptr || !within(joined.pending->time_ms)) return Joined{};
    joined.entry = user.state.exposure(item, joined.pending->time_ms, joined.pending->offset);
    return joined;
  }
  SF_ASSIGN(const auto known, known_id(state, kImpressionIdLetter, id));
  if (!known || !within(known->time_ms)) return Joined{};
  joined.entry = user.state.exposure(item, known->time_ms, known->offset);
  SF_TRY(join_late(state, {known->time_ms, known->offset}, item, joined));
  return joined;
}

void Applier::add_to_sequence(CachedUser& user, SequenceEntry* entry,
                              const ingest::InputRecord& record, const ingest::Action& event,
                              Key item) {
  ActionMark mark{types_.intern(event.type), event.time_ms, std::nullopt};
  if (event.value) mark.value = static_cast<float>(*event.value);
  users_.touch(user);
  user.dirty_sections.set(kSequenceSection);
  if (entry == nullptr) {
    SequenceEntry alone;
    alone.item = item;
    alone.time_ms = event.time_ms;
    alone.offset = record.offset;
    alone.exposed = false;
    alone.actions.push_back(mark);
    user.state.insert(std::move(alone), config_.user.sequence_max);
    return;
  }
  for (ActionMark& earlier : entry->actions) {
    if (earlier.type != mark.type) continue;
    // Known from its first time on; the value is the newest.
    if (mark.value) earlier.value = mark.value;
    earlier.time_ms = std::min(earlier.time_ms, mark.time_ms);
    return;
  }
  entry->actions.push_back(mark);
}

base::Result<Applier::Outcome> Applier::apply_action(const ingest::InputRecord& record,
                                                     const ingest::Action& event) {
  PartitionState& state = partition(record.source.partition);
  if (too_old(state, event.time_ms)) {
    return Outcome(ingest::Rejection{RejectReason::kTooOld, "older than dedup_horizon"});
  }
  SF_ASSIGN(CachedUser * user, users_.get(state.partition, event.user_id));
  if (user->erased_ms && event.time_ms <= *user->erased_ms) {
    return Outcome(ingest::Rejection{RejectReason::kTombstone, "the user was erased afterwards"});
  }
  const Key item = base::xxh3_64(event.item_id);
  const CatalogItemPtr meta = remembered_item(item);
  if (meta != nullptr && meta->id != event.item_id) {
    return Outcome(ingest::Rejection{
        RejectReason::kIdCollision,
        fmt::format("item_id \"{}\" has the same hash as \"{}\"", event.item_id, meta->id)});
  }
  if (meta != nullptr && meta->taken_down_ms && event.time_ms <= *meta->taken_down_ms) {
    return Outcome(
        ingest::Rejection{RejectReason::kTombstone, "the item was taken down afterwards"});
  }
  // Two families of ids that cannot meet: an event_id is text, a tuple holds a NUL.
  const IdHash id =
      id_hash(event.user_id, event.event_id ? *event.event_id
                                            : fmt::format("{}{}{}{}{}", event.item_id, '\0',
                                                          event.type, '\0', event.time_ms));
  SF_ASSIGN(const auto known, known_id(state, kEventIdLetter, id));
  if (known) return Outcome(Duplicate{});
  remember_id(state.partition, kEventIdLetter, id, {event.time_ms, record.offset});
  if (meta == nullptr) {
    CatalogItem stub;
    stub.id = event.item_id;
    stub.hash = item;
    item_side_.set_item(std::move(stub));
  }

  SF_ASSIGN(const Joined joined, join(state, *user, event, item));
  const ActionType type = types_.intern(event.type);
  const bool first = joined.cell != nullptr    ? (joined.cell->types >> type & 1U) == 0
                     : joined.entry != nullptr ? joined.entry->find(type) == nullptr
                                               : true;
  ExposureKeys keys = exposure_keys(config_.context, item, meta.get(), kNoKey);
  base::UnixMs shown_ms = event.time_ms;
  if (joined.cell != nullptr) {
    const PendingItem& cell = *joined.cell;
    keys = {item, cell.author, cell.tag, joined.pending->surface, cell.tagset, cell.bucket};
    shown_ms = joined.pending->time_ms;
    joined.cell->types |= 1ULL << type;
    if (joined.retained != nullptr) {
      joined.retained->dirty = true;
    } else {
      labels_changed(state, *joined.pending);
    }
  } else if (joined.late) {
    keys.surface = joined.entry->surface;
    shown_ms = joined.entry->time_ms;
  }
  ++(joined.late              ? counts_.late
     : joined.cell != nullptr ? counts_.attributed
                              : counts_.unattributed);
  if (type == click_ || type == long_view_) {
    const Count what = type == click_ ? Count::kClicks : Count::kLongViews;
    if (joined.cell == nullptr && !joined.late) {
      item_side_.add({CounterKind::kItemUnattributed, item, 0}, event.time_ms, what);
    } else if (first) {
      count(*user, {keys, shown_ms, event.time_ms, what, {}});
      if (what == Count::kClicks) clicked_items_.insert(item);
    }
  }
  // An attributed action whose exposure has left the sequence has nowhere to go in it.
  if (joined.entry != nullptr || joined.cell == nullptr) {
    add_to_sequence(*user, joined.entry, record, event, item);
  }
  users_.touch(*user);
  if (joined.cell != nullptr && first) SF_TRY(correct(state, joined, type, event.time_ms));
  SF_TRY(advance(state, event.time_ms));
  return Outcome(Applied{});
}

}  // namespace sirenfeed::features
