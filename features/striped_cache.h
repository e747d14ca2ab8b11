#pragma once
// A bounded table of decoded values over the store: many readers, one writer.
#include <array>
#include <cstddef>
#include <deque>
#include <functional>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/mutex.h"

namespace sirenfeed::features {

/// Threads: visit() from any; everything else from the one writer. A value that is not in memory is
/// loaded under the lock of its stripe, so that no reader can put an older one back. Changed values
/// stay in memory until commit() or rollback(); the others leave by second chance when a stripe is
/// full.
template <class K, class V, class Hash>
class StripedCache {
 public:
  /// The stored value, or a default one where there is none; nullopt when it cannot be read, which
  /// shows a default one and keeps nothing.
  using Load = std::function<std::optional<V>(const K&)>;

  StripedCache(std::size_t entries_max, Load load)
      : stripe_max_(entries_max / kStripes + 1), load_(std::move(load)) {}

  template <class F>
  auto visit(const K& key, F&& f) const {
    Stripe& stripe = stripe_of(key);
    base::MutexLock lock(stripe.mutex);
    const Slot* slot = slot_of(stripe, key);
    if (slot == nullptr) return std::forward<F>(f)(V{});
    return std::forward<F>(f)(slot->value);
  }

  template <class F>
  void update(const K& key, F&& f) {
    Stripe& stripe = stripe_of(key);
    base::MutexLock lock(stripe.mutex);
    Slot* found = slot_of(stripe, key);
    // What could not be read is changed all the same; whoever loads makes the batch fail.
    Slot& slot = found != nullptr ? *found : insert(stripe, key, V{});
    std::forward<F>(f)(slot.value);
    if (!slot.dirty) {
      slot.dirty = true;
      dirty_.emplace_back(key, &slot);
    }
  }

  /// f(key, value) for each changed value, in the order of first change.
  template <class F>
  void for_dirty(F&& f) const {
    for (const auto& [key, slot] : dirty_) f(key, std::as_const(slot->value));
  }
  [[nodiscard]] std::size_t dirty_count() const { return dirty_.size(); }

  void commit() {
    for (const auto& [key, slot] : dirty_) {
      base::MutexLock lock(stripe_of(key).mutex);
      slot->dirty = false;
    }
    dirty_.clear();
  }
  /// Forgets everything.
  void clear() {
    for (Stripe& stripe : stripes_) {
      base::MutexLock lock(stripe.mutex);
      stripe.slots.clear();
      stripe.clock.clear();
    }
    dirty_.clear();
  }
  /// Forgets what was changed: it is loaded again when it is needed.
  void rollback() {
    for (const auto& [key, slot] : dirty_) {
      Stripe& stripe = stripe_of(key);
      base::MutexLock lock(stripe.mutex);
      stripe.slots.erase(key);
    }
    dirty_.clear();
  }

 private:
  static constexpr std::size_t kStripes = 64;
  struct Slot {
    V value{};
    bool dirty = false;
    bool used = false;
  };
  struct Stripe {
    base::Mutex mutex;
    std::unordered_map<K, Slot, Hash> slots;
    std::deque<K> clock;  // every key, next candidate for leaving first
  };

  Stripe& stripe_of(const K& key) const { return stripes_[(Hash()(key) >> 48U) % kStripes]; }

  Slot* slot_of(Stripe& stripe, const K& key) const {
    const auto found = stripe.slots.find(key);
    if (found != stripe.slots.end()) {
      found->second.used = true;
      return &found->second;
    }
    std::optional<V> value = load_(key);
    return value ? &insert(stripe, key, *std::move(value)) : nullptr;
  }

  Slot& insert(Stripe& stripe, const K& key, V value) const {
    if (stripe.slots.size() >= stripe_max_) make_room(stripe);
    Slot& slot = stripe.slots[key];
    slot.value = std::move(value);
    stripe.clock.push_back(key);
    return slot;
  }

  static void make_room(Stripe& stripe) {
    // A bounded walk: when all of it is in use or changed, the stripe grows for a while.
    for (std::size_t tries = 0; tries < 16 && !stripe.clock.empty(); ++tries) {
      const K key = stripe.clock.front();
      stripe.clock.pop_front();
      const auto it = stripe.slots.find(key);
      if (it == stripe.slots.end()) continue;  // rolled back
      if (!it->second.dirty && !it->second.used) {
        stripe.slots.erase(it);
        return;
      }
      it->second.used = false;
      stripe.clock.push_back(key);
    }
  }

  const std::size_t stripe_max_;
  const Load load_;
  mutable std::array<Stripe, kStripes> stripes_;
  // A changed slot stays where it is, and only the writer changes its value: it needs neither a
  // search nor the lock to read it.
  std::vector<std::pair<K, Slot*>> dirty_;
};

}  // namespace sirenfeed::features
