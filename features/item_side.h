#pragma once
// Node state that every user's features read: counters of items, authors, tags and surfaces, and
// the catalog. Served from memory, loaded from the store on a miss.
#include <atomic>
#include <optional>
#include <string>
#include <string_view>

#include "base/mutex.h"
#include "base/result.h"
#include "features/catalog_item.h"
#include "features/decayed_counter.h"
#include "features/residual_counter.h"
#include "features/state_keys.h"
#include "features/store.h"
#include "features/striped_cache.h"

namespace sirenfeed::features {

struct KeyHash {
  std::size_t operator()(Key key) const noexcept { return key; }  // already a hash
};

/// catalog = version · flags · …, see docs/FORMATS.md.
[[nodiscard]] std::string encode_catalog_item(const CatalogItem& item);
[[nodiscard]] base::Result<CatalogItem> decode_catalog_item(std::string_view value);

/// CatalogItem::forgotten of a stored entry; false for what cannot be decoded.
[[nodiscard]] bool catalog_forgotten(std::string_view value, base::UnixMs floor);

/// Threads: reads from any; changes from the applying thread. A read that the store refuses gives
/// an empty value and is remembered: take_error() makes the batch fail instead of counting wrongly.
class ItemSide {
 public:
  ItemSide(const Store& store, const StoreConfig& config);

  [[nodiscard]] CountValues counts(const CounterKey& key, base::UnixMs t) const {
    return counters_.visit(key, [t](const ItemCounter& counter) { return counter.at(t); });
  }
  [[nodiscard]] ItemCounter counter(const CounterKey& key) const {
    return counters_.visit(key, [](const ItemCounter& counter) { return counter; });
  }
  void add(const CounterKey& key, base::UnixMs t, Count count) {
    counters_.update(key, [=](ItemCounter& counter) { counter.add(t, count); });
  }
  void reset(const CounterKey& key) {
    counters_.update(key, [](ItemCounter& counter) { counter = {}; });
  }

  // The same of the extended set.
  [[nodiscard]] ResidualValues residuals(const CounterKey& key, base::UnixMs t) const {
    return residuals_.visit(key, [t](const ItemResiduals& counter) { return counter.at(t); });
  }
  void add_residual(const CounterKey& key, base::UnixMs t, Count count, double residual) {
    residuals_.update(key, [=](ItemResiduals& counter) { counter.add(t, count, residual); });
  }
  void reset_residuals(const CounterKey& key) {
    residuals_.update(key, [](ItemResiduals& counter) { counter = {}; });
  }

  [[nodiscard]] CatalogItemPtr item(Key hash) const {
    return catalog_.visit(hash, [](const CatalogItemPtr& item) { return item; });
  }
  /// f(const CatalogItem* or null) under the entry's lock: no reference count is touched.
  template <class F>
  void with_item(Key hash, F&& f) const {
    catalog_.visit(hash, [&](const CatalogItemPtr& item) { f(item.get()); });
  }
  void set_item(CatalogItem item);

  void write_to(WriteBatch& batch) const;
  void commit();
  void rollback();
  void clear() {
    counters_.clear();
    residuals_.clear();
    catalog_.clear();
  }
  /// f(const CatalogItemPtr&) for each entry changed in this batch; f(key, counter) likewise.
  template <class F>
  void for_changed_items(F&& f) const {
    catalog_.for_dirty([&](Key, const CatalogItemPtr& item) { f(item); });
  }
  template <class F>
  void for_changed_counters(F&& f) const {
    counters_.for_dirty(f);
  }
  template <class F>
  void for_changed_residuals(F&& f) const {
    residuals_.for_dirty(f);
  }
  [[nodiscard]] std::optional<base::Error> take_error() const;

 private:
  void remember(base::Error error) const;
  template <class Counter>
  [[nodiscard]] std::optional<Counter> load_counter(const std::string& key) const;

  const Store& store_;
  mutable base::Mutex error_mutex_;
  mutable std::optional<base::Error> error_ SF_GUARDED_BY(error_mutex_);
  mutable std::atomic<bool> failed_{false};
  StripedCache<CounterKey, ItemCounter, CounterKeyHash> counters_;
  StripedCache<CounterKey, ItemResiduals, CounterKeyHash> residuals_;
  StripedCache<Key, CatalogItemPtr, KeyHash> catalog_;
};

}  // namespace sirenfeed::features
