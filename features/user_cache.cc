#include "features/user_cache.h"

#include "features/encode.h"
#include "features/state_keys.h"

namespace sirenfeed::features {
namespace {

base::Result<void> load_sections(const Store& store, ingest::Partition partition,
                                 std::string_view user_id, UserState& state) {
  std::vector<std::string> keys;
  for (std::size_t s = 0; s < kUserSections; ++s) {
    keys.push_back(section_key(partition, user_id, static_cast<std::uint8_t>(s)));
  }
  SF_ASSIGN(const auto values, store.multi_get(Family::kState, keys));
  for (std::size_t s = 0; s < kUserSections; ++s) {
    if (values[s]) SF_TRY(state.decode_section(s, *values[s]));
  }
  return {};
}

}  // namespace

base::Result<UserState> read_user_state(const Store& store, ingest::Partition partition,
                                        std::string_view user_id, bool& stored) {
  // All keys in one read, so that head and sections are of one batch.
  std::vector<std::string> keys = {user_key(partition, user_id)};
  for (std::size_t s = 0; s < kUserSections; ++s) {
    keys.push_back(section_key(partition, user_id, static_cast<std::uint8_t>(s)));
  }
  SF_ASSIGN(const auto values, store.multi_get(Family::kState, keys));
  UserState state;
  stored = values[0].has_value();
  if (!stored) return state;
  bool external = false;
  SF_TRY(state.decode_head(*values[0], external));
  for (std::size_t s = 0; external && s < kUserSections; ++s) {
    if (values[s + 1]) SF_TRY(state.decode_section(s, *values[s + 1]));
  }
  return state;
}

base::Result<CachedUser*> UserCache::get(ingest::Partition partition, std::string_view user_id) {
  const auto found = by_id_.find(user_id);
  if (found != by_id_.end()) {
    users_.splice(users_.begin(), users_, found->second->self);
    return found->second;
  }
  CachedUser user;
  user.id = user_id;
  user.partition = partition;
  SF_ASSIGN(const auto head, store_.get(Family::kState, user_key(partition, user_id)));
  if (head) {
    user.stored = true;
    SF_TRY(user.state.decode_head(*head, user.external));
    if (user.external) SF_TRY(load_sections(store_, partition, user_id, user.state));
  }
  SF_ASSIGN(const auto erased, store_.get(Family::kExpiring, erased_key(partition, user_id)));
  if (erased) user.erased_ms = Decoder(*erased).fixed<base::UnixMs>();
  users_.push_front(std::move(user));
  CachedUser& cached = users_.front();
  cached.self = users_.begin();
  cached.bytes = cached.state.memory_bytes() + sizeof cached + cached.id.capacity();
  bytes_ += cached.bytes;
  by_id_.emplace(cached.id, &cached);
  return &cached;
}

void UserCache::touch(CachedUser& user) {
  if (user.dirty) return;
  user.dirty = true;
  dirty_.push_back(&user);
}

void UserCache::erase(CachedUser& user, base::UnixMs time) {
  touch(user);
  user.state = UserState{};
  user.sections_dropped = user.sections_dropped || user.external;
  user.external = false;
  user.dirty_sections.reset();
  if (!user.erased_ms || time > *user.erased_ms) user.erased_ms = time;
  user.erased_dirty = true;
}

void UserCache::write_to(WriteBatch& batch) {
  for (CachedUser* user : dirty_) {
    if (user->erased_dirty) {
      std::string value;
      Encoder(value).fixed(*user->erased_ms);
      batch.put(Family::kExpiring, erased_key(user->partition, user->id), value);
    }
    const auto key_of = [&](std::size_t section) {
      return section_key(user->partition, user->id, static_cast<std::uint8_t>(section));
    };
    if (user->sections_dropped) {
      for (std::size_t s = 0; s < kUserSections; ++s) batch.erase(Family::kState, key_of(s));
    }
    const std::string head_key = user_key(user->partition, user->id);
    if (user->state.empty()) {
      batch.erase(Family::kState, head_key);
      user->stored = false;
      continue;
    }
    std::string head = user->state.encode_head(user->external);
    if (!user->external && head.size() > kInlineSectionsMax) {
      user->external = true;
      user->dirty_sections.set();
      head = user->state.encode_head(true);
    }
    user->stored = true;
    batch.put(Family::kState, head_key, head);
    for (std::size_t s = 0; user->external && s < kUserSections; ++s) {
      if (!user->dirty_sections.test(s)) continue;
      const std::string value = user->state.encode_section(s);
      if (value.empty()) {
        batch.erase(Family::kState, key_of(s));
      } else {
        batch.put(Family::kState, key_of(s), value);
      }
    }
  }
}

void UserCache::commit() {
  for (CachedUser* user : dirty_) {
    user->dirty = user->erased_dirty = user->sections_dropped = false;
    user->dirty_sections.reset();
    bytes_ -= user->bytes;
    user->bytes = user->state.memory_bytes() + sizeof *user + user->id.capacity();
    bytes_ += user->bytes;
  }
  dirty_.clear();
  while (bytes_ > bytes_max_ && !users_.empty()) {
    bytes_ -= users_.back().bytes;
    by_id_.erase(users_.back().id);
    users_.pop_back();
  }
}

void UserCache::clear() {
  dirty_.clear();
  by_id_.clear();
  users_.clear();
  bytes_ = 0;
}

void UserCache::rollback() {
  for (CachedUser* user : dirty_) {
    bytes_ -= user->bytes;
    by_id_.erase(user->id);
    users_.erase(user->self);
  }
  dirty_.clear();
}

}  // namespace sirenfeed::features
