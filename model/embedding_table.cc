#include "model/embedding_table.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "base/check.h"

namespace sirenfeed::model {

template <class T>
BasicEmbeddingTable<T>::BasicEmbeddingTable(std::string name, int width, Start start,
                                            std::uint64_t seed)
    : name_(std::move(name)),
      width_(static_cast<std::size_t>(width)),
      start_(start),
      seed_(seed),
      rows_(width_) {}

template <class T>
std::size_t BasicEmbeddingTable<T>::slot_of(Key key) const {
  const std::size_t mask = slots_.size() - 1;
  std::size_t slot = home_of(key, mask);
  for (;; slot = (slot + 1) & mask) {
    const std::uint32_t index = *slots_.at(slot);
    if (index == kNoRow || *keys_.at(index) == key) return slot;
  }
}

template <class T>
std::uint32_t BasicEmbeddingTable<T>::index_of(Key key) const {
  return slots_.size() == 0 ? kNoRow : *slots_.at(slot_of(key));
}

template <class T>
void BasicEmbeddingTable<T>::copy_row(Key key, std::span<T> out) const {
  const std::uint32_t index = index_of(key);
  if (index == kNoRow) {
    fill_start(start_, seed_, name_, key, out);
    return;
  }
  const std::span<const T> row = row_at(index);
  std::copy(row.begin(), row.end(), out.begin());
}

// Slot, key and row of a large table are three cache misses, each of which needs the one before;
// in blocks, the misses of different keys run at the same time.
template <class T>
void BasicEmbeddingTable<T>::copy_rows(std::span<const Key> keys, T* out) const {
  constexpr std::size_t kBlock = 16;
  constexpr std::size_t kLineBytes = 64;
  std::uint32_t found[kBlock];
  if (slots_.size() == 0) {
    for (std::size_t i = 0; i < keys.size(); ++i) copy_row(keys[i], {out + i * width_, width_});
    return;
  }
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t begin = 0; begin < keys.size(); begin += kBlock) {
    const std::size_t count = std::min(kBlock, keys.size() - begin);
    const Key* const block = keys.data() + begin;
    for (std::size_t i = 0; i < count; ++i) {
      __builtin_prefetch(slots_.at(home_of(block[i], mask)));
    }
    for (std::size_t i = 0; i < count; ++i) {
      found[i] = *slots_.at(home_of(block[i], mask));
      if (found[i] == kNoRow) continue;
      __builtin_prefetch(keys_.at(found[i]));
      rows_.prefetch_place(found[i]);
    }
    for (std::size_t i = 0; i < count; ++i) {
      if (found[i] != kNoRow && *keys_.at(found[i]) != block[i]) found[i] = index_of(block[i]);
      if (found[i] == kNoRow) continue;
      const T* const row = rows_.at(found[i]);
      for (std::size_t at = 0; at < width_; at += kLineBytes / sizeof(T)) {
        __builtin_prefetch(row + at);
      }
    }
    for (std::size_t i = 0; i < count; ++i) {
      T* const to = out + (begin + i) * width_;
      if (found[i] == kNoRow) {
        fill_start(start_, seed_, name_, block[i], std::span<T>(to, width_));
      } else {
        std::copy_n(rows_.at(found[i]), width_, to);
      }
    }
  }
}

template <class T>
std::uint32_t BasicEmbeddingTable<T>::find_or_create(Key key) {
  if (keys_.size() * 2 >= slots_.size()) rehash(std::max<std::size_t>(16, slots_.size() * 2));
  const std::size_t slot = slot_of(key);
  if (const std::uint32_t found = *slots_.at(slot); found != kNoRow) return found;
  SF_CHECK(keys_.size() < kNoRow);
  const auto index = static_cast<std::uint32_t>(keys_.size());
  *slots_.writable(slot) = index;
  *keys_.append() = key;
  fill_start(start_, seed_, name_, key, std::span<T>(rows_.append(), width_));
  return index;
}

template <class T>
std::uint32_t BasicEmbeddingTable<T>::erase(Key key) {
  const std::uint32_t index = index_of(key);
  if (index == kNoRow) return kNoRow;
  const auto last = static_cast<std::uint32_t>(keys_.size() - 1);
  // Close the gap in the probe chain: move back every later entry that may stand earlier.
  const std::size_t mask = slots_.size() - 1;
  std::size_t hole = slot_of(key);
  for (std::size_t slot = (hole + 1) & mask; *slots_.at(slot) != kNoRow; slot = (slot + 1) & mask) {
    const std::size_t home = home_of(*keys_.at(*slots_.at(slot)), mask);
    if (((slot - home) & mask) >= ((slot - hole) & mask)) {
      *slots_.writable(hole) = *slots_.at(slot);
      hole = slot;
    }
  }
  *slots_.writable(hole) = kNoRow;
  if (index != last) {
    *slots_.writable(slot_of(*keys_.at(last))) = index;
    *keys_.writable(index) = *keys_.at(last);
    T* const to = rows_.writable(index);
    std::copy_n(rows_.at(last), width_, to);
  }
  keys_.remove_last();
  rows_.remove_last();
  return last;
}

template <class T>
void BasicEmbeddingTable<T>::reserve(std::size_t rows) {
  std::size_t slots = 16;
  while (slots < rows * 2 + 2) slots *= 2;
  if (slots > slots_.size()) rehash(slots);
}

template <class T>
void BasicEmbeddingTable<T>::rehash(std::size_t slots) {
  slots_.clear();
  for (std::size_t slot = 0; slot < slots; ++slot) *slots_.append() = kNoRow;
  for (std::uint32_t index = 0; index < keys_.size(); ++index) {
    *slots_.writable(slot_of(*keys_.at(index))) = index;
  }
}

template <class T>
std::vector<std::uint32_t> BasicEmbeddingTable<T>::sorted_indices() const {
  std::vector<std::pair<std::int64_t, std::uint32_t>> order(keys_.size());
  for (std::uint32_t index = 0; index < keys_.size(); ++index) {
    order[index] = {static_cast<std::int64_t>(*keys_.at(index)), index};
  }
  std::sort(order.begin(), order.end());
  std::vector<std::uint32_t> indices(order.size());
  std::transform(order.begin(), order.end(), indices.begin(),
                 [](const auto& entry) { return entry.second; });
  return indices;
}

template <class T>
std::vector<Key> BasicEmbeddingTable<T>::smallest_keys(std::size_t count) const {
  std::vector<std::int64_t> smallest;  // a heap, the greatest first
  for (std::size_t index = 0; index < keys_.size() && count > 0; ++index) {
    const auto key = static_cast<std::int64_t>(*keys_.at(index));
    if (smallest.size() == count) {
      if (key >= smallest.front()) continue;
      std::pop_heap(smallest.begin(), smallest.end());
      smallest.pop_back();
    }
    smallest.push_back(key);
    std::push_heap(smallest.begin(), smallest.end());
  }
  std::sort_heap(smallest.begin(), smallest.end());
  return {smallest.begin(), smallest.end()};
}

template <class T>
TableChanges BasicEmbeddingTable<T>::changes_since(const BasicEmbeddingTable& before) const {
  TableChanges changes;
  const auto equal_rows = [&](std::uint32_t index, std::uint32_t old_index) {
    return std::memcmp(rows_.at(index), before.rows_.at(old_index), width_ * sizeof(T)) == 0;
  };
  constexpr std::size_t kBlock = PagedArray<T, kRowPageBits>::kPageElements;
  static_assert(kRowPageBits <= kKeyPageBits, "a block of rows lies on one page of keys");
  const std::size_t end = std::max(size(), before.size());
  for (std::size_t block = 0; block < end; block += kBlock) {
    const std::size_t stop = std::min(end, block + kBlock);
    // A table that shrank still shares the page of rows that only the longer one has.
    if (std::min(size(), stop) == std::min(before.size(), stop) &&
        rows_.shares_page(block, before.rows_) && keys_.shares_page(block, before.keys_)) {
      continue;
    }
    for (std::size_t at = block; at < stop; ++at) {
      const auto index = static_cast<std::uint32_t>(at);
      const bool stands = at < size();
      const bool stood = at < before.size();
      if (stands && stood && *keys_.at(at) == *before.keys_.at(at)) {
        if (!equal_rows(index, index)) changes.written.push_back(index);
        continue;
      }
      if (stands) {
        const std::uint32_t old_index = before.index_of(*keys_.at(at));
        if (old_index == kNoRow || !equal_rows(index, old_index)) changes.written.push_back(index);
      }
      if (stood && index_of(*before.keys_.at(at)) == kNoRow) {
        changes.erased.push_back(*before.keys_.at(at));
      }
    }
  }
  return changes;
}

template class BasicEmbeddingTable<float>;
template class BasicEmbeddingTable<double>;

}  // namespace sirenfeed::model
