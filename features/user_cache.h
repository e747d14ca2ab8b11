#pragma once
// Decoded users of the applying thread: loaded on a miss, written back once a batch.
#include <cstddef>
#include <list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "features/store.h"
#include "features/user_state.h"
#include "ingest/topic.h"

namespace sirenfeed::features {

struct CachedUser {
  std::string id;
  ingest::Partition partition = 0;
  UserState state;
  std::optional<base::UnixMs> erased_ms;  // newest erasure whose tombstone is kept
  // What the store holds.
  bool stored = false;
  bool external = false;
  // What the batch in the making changes.
  bool dirty = false;
  SectionSet dirty_sections;
  bool erased_dirty = false;
  bool sections_dropped = false;  // erased while external: their keys are deleted first

  std::size_t bytes = 0;  // as of the last commit
  std::list<CachedUser>::iterator self;
};

/// A user's value as the store has it: decodes head and, where they lie apart, sections.
[[nodiscard]] base::Result<UserState> read_user_state(const Store& store,
                                                      ingest::Partition partition,
                                                      std::string_view user_id, bool& stored);

/// Threads: the applying one.
class UserCache {
 public:
  UserCache(const Store& store, std::size_t bytes_max) : store_(store), bytes_max_(bytes_max) {}

  /// Stays valid until commit() or rollback().
  base::Result<CachedUser*> get(ingest::Partition partition, std::string_view user_id);
  void touch(CachedUser& user);
  /// Forgets everything but the erasure itself.
  void erase(CachedUser& user, base::UnixMs time);

  void write_to(WriteBatch& batch);
  void commit();
  void rollback();
  void clear();
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  const Store& store_;
  const std::size_t bytes_max_;
  std::size_t bytes_ = 0;
  std::list<CachedUser> users_;                              // most recently used first
  std::unordered_map<std::string_view, CachedUser*> by_id_;  // views of CachedUser::id
  std::vector<CachedUser*> dirty_;
};

}  // namespace sirenfeed::features
