#pragma once
// Which items there are to serve: by age, popularity, tag and author, in memory.
#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "features/catalog_item.h"
#include "features/decayed_counter.h"
#include "features/feature_reader.h"
#include "features/features_config.h"
#include "features/item_side.h"

namespace sirenfeed::features {

/// Holds the items_max newest of the items that are known, neither taken down nor hidden. Rebuilt
/// from the catalog at open. Threads: changes from the applying thread, reads from any.
class CandidateIndex {
 public:
  explicit CandidateIndex(IndexConfig config) : config_(config) {}

  /// After the item or its state changed.
  void update(const CatalogItem& item);
  /// After the item's clicks changed.
  void set_clicks(Key item, const ItemCounter& counter);
  /// Lets go of what has expired.
  void expire(base::UnixMs now);
  void clear();

  [[nodiscard]] std::vector<Key> fresh(std::size_t limit, base::UnixMs now) const;
  [[nodiscard]] std::vector<Key> popular(PopularSpan span, std::size_t limit,
                                         base::UnixMs now) const;
  [[nodiscard]] std::vector<Key> by_tag(Key tag, std::size_t limit, base::UnixMs now) const;
  [[nodiscard]] std::vector<Key> by_author(Key author, std::size_t limit, base::UnixMs now) const;
  [[nodiscard]] std::vector<Key> random(std::size_t limit, std::uint64_t seed,
                                        base::UnixMs now) const;
  [[nodiscard]] std::size_t size() const;

 private:
  using Rank = std::pair<double, Key>;
  using ByAge = std::set<std::pair<base::UnixMs, Key>>;  // oldest first
  struct Entry {
    base::UnixMs published_ms = 0;
    std::optional<base::UnixMs> expires_ms;
    Key author = kNoKey;
    std::vector<Key> tags;
    std::array<std::optional<double>, 2> rank;  // by PopularSpan
    std::size_t place = 0;                      // in places_
  };

  void remove(Key item) SF_REQUIRES(mutex_);
  void insert(const CatalogItem& item) SF_REQUIRES(mutex_);
  [[nodiscard]] bool living(Key item, base::UnixMs now) const SF_REQUIRES(mutex_);
  [[nodiscard]] std::vector<Key> newest(const ByAge& ages, std::size_t limit,
                                        base::UnixMs now) const SF_REQUIRES(mutex_);

  const IndexConfig config_;
  mutable base::Mutex mutex_;
  std::unordered_map<Key, Entry, KeyHash> entries_ SF_GUARDED_BY(mutex_);
  std::vector<Key> places_ SF_GUARDED_BY(mutex_);  // every entry once, for random()
  ByAge ages_ SF_GUARDED_BY(mutex_);
  ByAge expiries_ SF_GUARDED_BY(mutex_);
  std::array<std::set<Rank, std::greater<>>, 2> ranks_ SF_GUARDED_BY(mutex_);
  std::unordered_map<Key, ByAge, KeyHash> tags_ SF_GUARDED_BY(mutex_);
  std::unordered_map<Key, ByAge, KeyHash> authors_ SF_GUARDED_BY(mutex_);
};

}  // namespace sirenfeed::features
