#include "features/state_reader.h"

#include <algorithm>
#include <boost/json.hpp>

#include "base/hash.h"
#include "features/context_features.h"
#include "features/encode.h"
#include "features/example_format/context_schema.h"
#include "features/user_cache.h"

namespace sirenfeed::features {
namespace {

std::vector<ActionType> configured_types(ActionTypes& types,
                                         const std::vector<std::string>& actions) {
  std::vector<ActionType> result;
  for (const std::string& action : actions) result.push_back(types.intern(action));
  return result;
}

std::vector<Key> sorted_keys(const std::vector<std::string>& names) {
  std::vector<Key> keys;
  for (const std::string& name : names) keys.push_back(base::xxh3_64(name));
  std::sort(keys.begin(), keys.end());
  return keys;
}

std::vector<Key> top_pairs(const UserSnapshot& user, PairKind kind, std::size_t limit) {
  std::vector<std::pair<double, Key>> ranked;
  for (const PairCounter& pair : user.state->pairs) {
    if (pair.kind != kind || pair.key == kNoKey) continue;
    const double clicks = pair.counter.at(user.time_ms).of(Count::kClicks, HalfLife::kMonth);
    if (clicks > 0) ranked.emplace_back(-clicks, pair.key);
  }
  limit = std::min(limit, ranked.size());
  std::partial_sort(ranked.begin(), ranked.begin() + static_cast<std::ptrdiff_t>(limit),
                    ranked.end());
  std::vector<Key> keys;
  for (std::size_t i = 0; i < limit; ++i) keys.push_back(ranked[i].second);
  return keys;
}

boost::json::object counts_json(const CountValues& counts) {
  boost::json::object json;
  const std::array names = {"shown", "clicks", "long_views"};
  for (std::size_t c = 0; c < kCounts; ++c) {
    json[names[c]] = {
        {"1h", counts.value[c][0]}, {"1d", counts.value[c][1]}, {"30d", counts.value[c][2]}};
  }
  return json;
}

template <class T>
boost::json::value or_null(const std::optional<T>& value) {
  return value ? boost::json::value_from(*value) : boost::json::value();
}

constexpr base::UnixMs kNewest = INT64_MAX / 2;

}  // namespace

bool UserSnapshot::seen(Key item) const { return state->seen_before(item, kNewest); }
std::vector<Key> UserSnapshot::top_tags(std::size_t limit) const {
  return top_pairs(*this, PairKind::kTag, limit);
}
std::vector<Key> UserSnapshot::top_authors(std::size_t limit) const {
  return top_pairs(*this, PairKind::kAuthor, limit);
}

StateReader::StateReader(const FeaturesConfig& config, const Store& store,
                         const ItemSide& item_side, ActionTypes& types, const CandidateIndex& index,
                         const ContextComputer& computer)
    : config_(config),
      store_(store),
      item_side_(item_side),
      types_(types),
      index_(index),
      computer_(computer),
      bits_(configured_types(types, config.example.actions)),
      names_(context_feature_names(config.context)),
      schemas_{schema_hash(names_), schema_hash(config.example.actions)} {}

std::string StateReader::served_inputs(const UserSnapshot& user, std::string_view surface,
                                       std::span<const ServedItem> items,
                                       std::span<const float> context) const {
  return encode_served_inputs(user, surface, items, context, schemas_);
}

base::Result<UserSnapshot> StateReader::read_user(std::string_view user_id,
                                                  base::UnixMs now) const {
  const ingest::Partition partition = ingest::partition_of(user_id, config_.partitions);
  UserSnapshot user;
  user.user_id = user_id;
  user.time_ms = now;
  auto state = std::make_shared<UserState>();
  SF_ASSIGN(*state, read_user_state(store_, partition, user_id, user.known));
  if (state->profile) {
    user.segment = state->profile->segment;
    if (user.segment) user.segment_key = base::xxh3_64(*user.segment);
    user.blocked_authors = sorted_keys(state->profile->blocked_authors);
    user.blocked_tags = sorted_keys(state->profile->blocked_tags);
  }
  user.history = make_history(*state, item_side_, bits_, now, config_.example);
  user.state = std::move(state);
  return user;
}

base::Result<std::vector<SequenceView>> StateReader::read_sequence(std::string_view user_id) const {
  bool known = false;
  const ingest::Partition partition = ingest::partition_of(user_id, config_.partitions);
  SF_ASSIGN(const UserState state, read_user_state(store_, partition, user_id, known));
  std::vector<SequenceView> entries;
  for (const SequenceEntry& entry : state.sequence) {
    SequenceView view{entry.item, entry.time_ms, entry.exposed, entry.surface, {}};
    for (const ActionMark& mark : entry.actions) {
      view.actions.push_back({types_.name(mark.type), mark.time_ms, mark.value});
    }
    entries.push_back(std::move(view));
  }
  return entries;
}

base::Result<std::optional<base::UnixMs>> StateReader::erased_at(std::string_view user_id) const {
  const ingest::Partition partition = ingest::partition_of(user_id, config_.partitions);
  SF_ASSIGN(const auto value, store_.get(Family::kExpiring, erased_key(partition, user_id)));
  if (!value) return std::nullopt;
  return Decoder(*value).fixed<base::UnixMs>();
}

void StateReader::context(const UserSnapshot& user, std::span<const Key> items,
                          std::string_view surface, std::span<float> out) const {
  std::vector<ContextCandidate> candidates;
  candidates.reserve(items.size());
  for (const Key item : items) candidates.push_back({item, item_side_.item(item)});
  const Key surface_key = surface.empty() ? kNoKey : base::xxh3_64(surface);
  computer_.compute({*user.state, surface_key, user.time_ms}, candidates, out);
}

CatalogItemPtr StateReader::item(std::string_view item_id) const {
  CatalogItemPtr item = item_side_.item(base::xxh3_64(item_id));
  return item != nullptr && item->id == item_id ? item : nullptr;
}

bool StateReader::servable(Key hash, base::UnixMs now) const {
  bool servable = false;
  item_side_.with_item(hash, [&](const CatalogItem* item) {
    servable = item != nullptr && item->known && !item->hidden && !item->expired(now);
  });
  return servable;
}

std::vector<Key> StateReader::fresh(std::size_t limit, base::UnixMs now) const {
  return index_.fresh(limit, now);
}
std::vector<Key> StateReader::popular(PopularSpan span, std::size_t limit, base::UnixMs now) const {
  return index_.popular(span, limit, now);
}
std::vector<Key> StateReader::by_tag(Key tag, std::size_t limit, base::UnixMs now) const {
  return index_.by_tag(tag, limit, now);
}
std::vector<Key> StateReader::by_author(Key author, std::size_t limit, base::UnixMs now) const {
  return index_.by_author(author, limit, now);
}
std::vector<Key> StateReader::random(std::size_t limit, std::uint64_t seed,
                                     base::UnixMs now) const {
  return index_.random(limit, seed, now);
}

base::Result<std::string> StateReader::inspect_user(std::string_view user_id) const {
  namespace json = boost::json;
  SF_ASSIGN(const UserSnapshot user, read_user(user_id, kNewest));
  SF_ASSIGN(const auto erased, erased_at(user_id));
  if (!user.known && !erased) {
    return base::fail(base::ErrorCode::kNotFound, "user \"{}\" is not in the state", user_id);
  }
  SF_ASSIGN(const auto sequence, read_sequence(user_id));
  json::array entries;
  for (const SequenceView& entry : sequence) {
    const CatalogItemPtr item = item_side_.item(entry.item);
    json::array actions;
    for (const SequenceAction& action : entry.actions) {
      actions.push_back(json::object{
          {"type", action.type}, {"time", action.time_ms}, {"value", or_null(action.value)}});
    }
    entries.push_back(
        json::object{{"item", item != nullptr ? json::value(item->id) : json::value()},
                     {"time", entry.time_ms},
                     {"exposed", entry.exposed},
                     {"actions", std::move(actions)}});
  }
  const UserState& state = *user.state;
  json::object out{
      {"user", user_id},
      {"partition", ingest::partition_of(user_id, config_.partitions)},
      {"erased_at", or_null(erased)},
      {"segment", or_null(user.segment)},
      {"seen", state.seen.size()},
      {"pair_counters", state.pairs.size()},
      {"counters",
       counts_json(state.total.at(state.total.empty() ? kNewest : state.total.last_ms() + 1))},
      {"sequence", std::move(entries)}};
  if (state.profile) {
    out["blocked_authors"] = json::value_from(state.profile->blocked_authors);
    out["blocked_tags"] = json::value_from(state.profile->blocked_tags);
  }
  return json::serialize(out);
}

base::Result<std::string> StateReader::inspect_item(std::string_view item_id) const {
  namespace json = boost::json;
  const CatalogItemPtr found = item(item_id);
  if (found == nullptr) {
    return base::fail(base::ErrorCode::kNotFound, "item \"{}\" is not in the catalog", item_id);
  }
  const ItemCounter counter = item_side_.counter({CounterKind::kItem, found->hash, 0});
  json::object numeric;
  for (const auto& [name, value] : found->numeric) numeric[name] = value;
  return json::serialize(json::object{
      {"item", found->id},
      {"hash", fmt::format("{:016x}", found->hash)},
      {"known", found->known},
      {"hidden", found->hidden},
      {"updated_at", found->updated_ms},
      {"taken_down_at", or_null(found->taken_down_ms)},
      {"first_shown_at", or_null(found->first_shown_ms)},
      {"published_at", or_null(found->published_ms)},
      {"expires_at", or_null(found->expires_ms)},
      {"author", or_null(found->author_id)},
      {"tags", json::value_from(found->tags)},
      {"numeric", std::move(numeric)},
      {"title", or_null(found->title)},
      {"url", or_null(found->url)},
      {"image_url", or_null(found->image_url)},
      {"language", or_null(found->language)},
      {"counters", counts_json(counter.at(counter.empty() ? kNewest : counter.last_ms() + 1))}});
}

}  // namespace sirenfeed::features
