// An impression: features as they were before it, then what it changes, then the watermark.
#include "base/hash.h"
#include "features/applier.h"

namespace sirenfeed::features {

using ingest::RejectReason;

// Fills shown_ with the items that count: those without a takedown at or after the impression.
base::Result<std::optional<ingest::Rejection>> Applier::resolve_items(
    const ingest::Impression& event) {
  shown_.clear();
  const Key surface = event.surface ? base::xxh3_64(*event.surface) : kNoKey;
  for (const ingest::ShownItem& shown : event.items) {
    const Key hash = base::xxh3_64(shown.item_id);
    CatalogItemPtr meta = remembered_item(hash);
    if (meta != nullptr && meta->id != shown.item_id) {
      return ingest::Rejection{
          RejectReason::kIdCollision,
          fmt::format("item_id \"{}\" has the same hash as \"{}\"", shown.item_id, meta->id)};
    }
    if (meta != nullptr && meta->taken_down_ms && event.time_ms <= *meta->taken_down_ms) continue;
    const bool repeated = std::any_of(shown_.begin(), shown_.end(), [&](const Shown& other) {
      return other.candidate.item == hash;
    });
    if (repeated) continue;
    const ExposureKeys keys = exposure_keys(config_.context, hash, meta.get(), surface);
    shown_.push_back({&shown, {hash, std::move(meta)}, keys, {}});
  }
  if (shown_.empty()) {
    return ingest::Rejection{RejectReason::kTombstone, "every item was taken down afterwards"};
  }
  return std::optional<ingest::Rejection>();
}

void Applier::count_exposures(CachedUser& user, const ingest::Impression& event,
                              ingest::Offset offset) {
  const base::UnixMs t = event.time_ms;
  for (const Shown& shown : shown_) {
    const CatalogItem* meta = shown.candidate.meta.get();
    if (meta == nullptr || !meta->first_shown_ms || t < *meta->first_shown_ms) {
      CatalogItem next = meta != nullptr ? *meta : CatalogItem();
      if (meta == nullptr) {
        next.id = shown.shown->item_id;
        next.hash = shown.candidate.item;
      }
      next.first_shown_ms = t;
      item_side_.set_item(std::move(next));
    }
    const ExposureKeys& keys = shown.keys;
    count(user, {keys, t, t, Count::kShown, shown.baseline});
    SequenceEntry entry;
    entry.item = keys.item;
    entry.time_ms = t;
    entry.offset = offset;
    entry.surface = keys.surface;
    entry.p0 = static_cast<float>(shown.baseline.p0);
    user.state.insert(std::move(entry), config_.user.sequence_max);
    user.state.see(keys.item, t, config_.user, user.dirty_sections);
  }
  user.dirty_sections.set(kSequenceSection);
}

base::Result<Applier::Outcome> Applier::apply_impression(const ingest::InputRecord& record,
                                                         const ingest::Impression& event) {
  PartitionState& state = partition(record.source.partition);
  if (too_old(state, event.time_ms)) {
    return Outcome(ingest::Rejection{RejectReason::kTooOld, "older than dedup_horizon"});
  }
  SF_ASSIGN(CachedUser * user, users_.get(state.partition, event.user_id));
  if (user->erased_ms && event.time_ms <= *user->erased_ms) {
    return Outcome(ingest::Rejection{RejectReason::kTombstone, "the user was erased afterwards"});
  }
  const IdHash id = id_hash(event.user_id, event.impression_id);
  SF_ASSIGN(const auto known, known_id(state, kImpressionIdLetter, id));
  if (known) return Outcome(Duplicate{});
  SF_ASSIGN(auto rejection, resolve_items(event));
  if (rejection) return Outcome(*std::move(rejection));

  Pending pending;
  pending.time_ms = event.time_ms;
  pending.offset = record.offset;
  pending.user_id = event.user_id;
  pending.id = id;
  pending.surface = shown_.front().keys.surface;
  for (const Shown& shown : shown_) {
    const ExposureKeys& keys = shown.keys;
    pending.items.push_back({keys.item, keys.author, keys.tag, 0, keys.tagset, keys.bucket});
  }
  const bool frozen = wiring_.observer != nullptr && wiring_.observer->wants_frozen();
  if (frozen) {  // before the live one, whose baselines are counted
    Example of_day;
    builder_.build(event, {state.partition, record.offset},
                   frozen_users_.of_day(event.user_id, event.time_ms, user->state), shown_, of_day);
    wiring_.observer->on_frozen(of_day);
  }
  pending.example = std::make_unique<Example>();
  builder_.build(event, {state.partition, record.offset}, user->state, shown_, *pending.example);
  SF_TRY(serve_impression(state, event, pending));
  if (wiring_.observer != nullptr) wiring_.observer->on_exposure(*pending.example);

  users_.touch(*user);
  count_exposures(*user, event, record.offset);
  remember_id(state.partition, kImpressionIdLetter, id, {event.time_ms, record.offset});
  ++state.impressions.accepted;
  state.dirty = true;
  state.unstored.emplace_back(event.time_ms, record.offset);
  Pending& added = state.pending.add(std::move(pending));
  if (config_.join.fake_negatives) {
    leave(state, added, windows_.all_tasks(), event.time_ms, *added.example);
  }
  ++counts_.impressions;
  counts_.exposures += shown_.size();
  SF_TRY(advance(state, event.time_ms));
  return Outcome(Applied{});
}

}  // namespace sirenfeed::features
