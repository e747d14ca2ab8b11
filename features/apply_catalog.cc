// Items and users: the newest event by timestamp counts, a removal leaves a tombstone.
#include "base/hash.h"
#include "features/applier.h"

namespace sirenfeed::features {

using ingest::RejectReason;

namespace {

CatalogItem catalog_item(const ingest::ItemUpdate& event, const CatalogItem* before) {
  CatalogItem item;
  item.id = event.item_id;
  item.hash = base::xxh3_64(event.item_id);
  item.known = true;
  item.hidden = event.hidden;
  item.updated_ms = event.time_ms;
  if (before != nullptr) {
    item.taken_down_ms = before->taken_down_ms;
    item.first_shown_ms = before->first_shown_ms;
  }
  item.published_ms = event.published_at_ms;
  item.expires_ms = event.expires_at_ms;
  item.author_id = event.author_id;
  if (event.author_id) item.author = base::xxh3_64(*event.author_id);
  item.tags = event.tags;
  for (const std::string& tag : event.tags) item.tag_keys.push_back(base::xxh3_64(tag));
  item.numeric = event.numeric;
  item.title = event.title;
  item.url = event.url;
  item.image_url = event.image_url;
  item.language = event.language;
  return item;
}

}  // namespace

base::Result<Applier::Outcome> Applier::apply_item(const ingest::InputRecord& record,
                                                   const ingest::ItemUpdate& event) {
  const Key hash = base::xxh3_64(event.item_id);
  const CatalogItemPtr before = remembered_item(hash);
  if (before != nullptr && before->id != event.item_id) {
    return Outcome(ingest::Rejection{
        RejectReason::kIdCollision,
        fmt::format("item_id \"{}\" has the same hash as \"{}\"", event.item_id, before->id)});
  }
  if (before != nullptr && before->taken_down_ms && event.time_ms <= *before->taken_down_ms) {
    if (event.deleted) return Outcome(Duplicate{});
    return Outcome(ingest::Rejection{RejectReason::kTombstone, "the item was taken down later"});
  }
  // What is known is newer: a late event changes nothing but the tombstone.
  const bool older = before != nullptr && before->known && event.time_ms < before->updated_ms;
  if (event.deleted) {
    if (older) {
      CatalogItem item = *before;
      item.taken_down_ms = event.time_ms;
      item_side_.set_item(std::move(item));
      return Outcome(Applied{});
    }
    CatalogItem item;
    item.id = event.item_id;
    item.hash = hash;
    const bool known = before != nullptr && before->known;
    SF_ASSIGN(const Removal counters, take_down(std::move(item), event.time_ms));
    batch_removals_.push_back({record.source, record.offset, counters});
    if (known) batch_removals_.back().removal["catalog"] = 1;  // all but id and tombstone
    return Outcome(Applied{});
  }
  if (!older) item_side_.set_item(catalog_item(event, before.get()));
  return Outcome(Applied{});
}

// The stored counters of an item's surfaces; `prefix` is the key of any of them.
base::Result<void> Applier::surface_counters(std::string prefix, std::vector<CounterKey>& keys) {
  prefix.resize(prefix.size() - sizeof(Key));
  return store_.scan(Family::kState, prefix, [&](std::string_view key, std::string_view) {
    keys.push_back(parse_counter_key(key));
    return true;
  });
}

// Leaves the id and the tombstone; metadata and counters go, so that a later event starts anew.
base::Result<Removal> Applier::take_down(CatalogItem item, base::UnixMs time) {
  const Key hash = item.hash;
  Removal removal;
  item.updated_ms = time;
  item.taken_down_ms = time;
  item_side_.set_item(std::move(item));
  std::vector<CounterKey> keys;
  for (const CounterKind kind : {CounterKind::kItem, CounterKind::kItemUnattributed}) {
    if (!item_side_.counter({kind, hash, 0}).empty()) keys.push_back({kind, hash, 0});
  }
  SF_TRY(surface_counters(counter_key({CounterKind::kItemSurface, hash, 0}), keys));
  // And those that this batch has made.
  const auto of_item = [&](const CounterKey& key, const auto&) {
    if (key.kind == CounterKind::kItemSurface && key.a == hash) keys.push_back(key);
  };
  item_side_.for_changed_counters(of_item);
  removal["counters"] = keys.size();
  for (const CounterKey& key : keys) item_side_.reset(key);
  if (config_.context.extended) {
    keys = {{CounterKind::kItem, hash, 0}};
    SF_TRY(surface_counters(residuals_key({CounterKind::kItemSurface, hash, 0}), keys));
    item_side_.for_changed_residuals(of_item);
    removal["residuals"] = keys.size();
    for (const CounterKey& key : keys) item_side_.reset_residuals(key);
  }
  clicked_items_.insert(hash);
  return removal;
}

base::Result<Applier::Outcome> Applier::apply_user(const ingest::InputRecord& record,
                                                   const ingest::UserUpdate& event) {
  PartitionState& state = partition(record.source.partition);
  SF_ASSIGN(CachedUser * user, users_.get(state.partition, event.user_id));
  if (user->erased_ms && event.time_ms <= *user->erased_ms) {
    if (event.erase) return Outcome(Duplicate{});
    return Outcome(ingest::Rejection{RejectReason::kTombstone, "the user was erased afterwards"});
  }
  if (event.erase) {
    SF_TRY(erase_user(record, state, *user, event.time_ms));
    return Outcome(Applied{});
  }
  std::optional<UserProfile>& profile = user->state.profile;
  if (profile && event.time_ms < profile->time_ms) return Outcome(Applied{});  // older: no change
  users_.touch(*user);
  profile.emplace();
  profile->time_ms = event.time_ms;
  profile->segment = event.segment;
  profile->blocked_authors = event.blocked_authors;
  profile->blocked_tags = event.blocked_tags;
  return Outcome(Applied{});
}

}  // namespace sirenfeed::features
