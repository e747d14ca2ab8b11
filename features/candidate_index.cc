#include "features/candidate_index.h"

#include <algorithm>
#include <cmath>
#include <unordered_set>

#include "base/hash.h"

namespace sirenfeed::features {
namespace {

constexpr std::array<HalfLife, 2> kSpans = {HalfLife::kHour, HalfLife::kDay};

std::uint64_t next_random(std::uint64_t& state) {
  return base::mix64(state += base::kSplitMixStep);
}

}  // namespace

void CandidateIndex::update(const CatalogItem& item) {
  if (!config_.enabled) return;
  base::MutexLock lock(mutex_);
  const auto found = entries_.find(item.hash);
  std::array<std::optional<double>, 2> rank;
  if (found != entries_.end()) rank = found->second.rank;
  remove(item.hash);
  if (!item.known || item.hidden) return;
  insert(item);
  Entry& entry = entries_.at(item.hash);
  entry.rank = rank;
  for (std::size_t s = 0; s < kSpans.size(); ++s) {
    if (rank[s]) ranks_[s].emplace(*rank[s], item.hash);
  }
  if (entries_.size() > config_.items_max) remove(ages_.begin()->second);
}

void CandidateIndex::insert(const CatalogItem& item) {
  Entry entry;
  entry.published_ms = item.published_ms.value_or(item.updated_ms);
  entry.expires_ms = item.expires_ms;
  entry.author = item.author;
  entry.tags = item.tag_keys;
  entry.place = places_.size();
  const std::pair age(entry.published_ms, item.hash);
  ages_.insert(age);
  if (entry.expires_ms) expiries_.emplace(*entry.expires_ms, item.hash);
  if (entry.author != kNoKey) authors_[entry.author].insert(age);
  for (const Key tag : entry.tags) tags_[tag].insert(age);
  places_.push_back(item.hash);
  entries_.emplace(item.hash, std::move(entry));
}

void CandidateIndex::remove(Key item) {
  const auto it = entries_.find(item);
  if (it == entries_.end()) return;
  const Entry& entry = it->second;
  const std::pair age(entry.published_ms, item);
  const auto drop = [&](auto& index, Key key) {
    const auto at = index.find(key);
    if (at == index.end()) return;
    at->second.erase(age);
    if (at->second.empty()) index.erase(at);
  };
  ages_.erase(age);
  if (entry.expires_ms) expiries_.erase({*entry.expires_ms, item});
  drop(authors_, entry.author);
  for (const Key tag : entry.tags) drop(tags_, tag);
  for (std::size_t s = 0; s < kSpans.size(); ++s) {
    if (entry.rank[s]) ranks_[s].erase({*entry.rank[s], item});
  }
  places_[entry.place] = places_.back();
  entries_.at(places_.back()).place = entry.place;
  places_.pop_back();
  entries_.erase(it);
}

void CandidateIndex::set_clicks(Key item, const ItemCounter& counter) {
  if (!config_.enabled) return;
  base::MutexLock lock(mutex_);
  const auto it = entries_.find(item);
  if (it == entries_.end()) return;
  for (std::size_t s = 0; s < kSpans.size(); ++s) {
    std::optional<double>& rank = it->second.rank[s];
    if (rank) ranks_[s].erase({*rank, item});
    const double key = counter.empty() ? -INFINITY : counter.rank_key(Count::kClicks, kSpans[s]);
    rank = std::isfinite(key) ? std::optional(key) : std::nullopt;
    if (rank) ranks_[s].emplace(*rank, item);
  }
}

void CandidateIndex::expire(base::UnixMs now) {
  base::MutexLock lock(mutex_);
  while (!expiries_.empty() && expiries_.begin()->first <= now) remove(expiries_.begin()->second);
}

void CandidateIndex::clear() {
  base::MutexLock lock(mutex_);
  entries_.clear();
  places_.clear();
  ages_.clear();
  expiries_.clear();
  for (auto& ranks : ranks_) ranks.clear();
  tags_.clear();
  authors_.clear();
}

bool CandidateIndex::living(Key item, base::UnixMs now) const {
  const auto it = entries_.find(item);
  if (it == entries_.end()) return false;
  return !it->second.expires_ms || *it->second.expires_ms > now;
}

std::vector<Key> CandidateIndex::newest(const ByAge& ages, std::size_t limit,
                                        base::UnixMs now) const {
  std::vector<Key> items;
  for (auto it = ages.rbegin(); it != ages.rend() && items.size() < limit; ++it) {
    if (living(it->second, now)) items.push_back(it->second);
  }
  return items;
}

std::vector<Key> CandidateIndex::fresh(std::size_t limit, base::UnixMs now) const {
  base::MutexLock lock(mutex_);
  return newest(ages_, limit, now);
}

std::vector<Key> CandidateIndex::popular(PopularSpan span, std::size_t limit,
                                         base::UnixMs now) const {
  base::MutexLock lock(mutex_);
  std::vector<Key> items;
  for (const auto& [rank, item] : ranks_[static_cast<std::size_t>(span)]) {
    if (items.size() == limit) break;
    if (living(item, now)) items.push_back(item);
  }
  return items;
}

std::vector<Key> CandidateIndex::by_tag(Key tag, std::size_t limit, base::UnixMs now) const {
  base::MutexLock lock(mutex_);
  const auto it = tags_.find(tag);
  return it == tags_.end() ? std::vector<Key>() : newest(it->second, limit, now);
}

std::vector<Key> CandidateIndex::by_author(Key author, std::size_t limit, base::UnixMs now) const {
  base::MutexLock lock(mutex_);
  const auto it = authors_.find(author);
  return it == authors_.end() ? std::vector<Key>() : newest(it->second, limit, now);
}

std::vector<Key> CandidateIndex::random(std::size_t limit, std::uint64_t seed,
                                        base::UnixMs now) const {
  base::MutexLock lock(mutex_);
  std::vector<Key> items;
  if (limit >= places_.size()) {
    for (const Key item : places_) {
      if (living(item, now)) items.push_back(item);
    }
    return items;
  }
  std::unordered_set<std::size_t> taken;
  std::uint64_t state = seed;
  // Draws without repetition; a few more than limit, since some may have expired.
  for (std::size_t draws = 0; draws < 4 * limit && items.size() < limit; ++draws) {
    const std::size_t place = next_random(state) % places_.size();
    if (taken.insert(place).second && living(places_[place], now)) items.push_back(places_[place]);
  }
  return items;
}

std::size_t CandidateIndex::size() const {
  base::MutexLock lock(mutex_);
  return entries_.size();
}

}  // namespace sirenfeed::features
