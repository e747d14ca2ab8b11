#include "model/embedding_table.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"

namespace sirenfeed::model {

template <class T>
BasicEmbeddingTable<T>::BasicEmbeddingTable(std::string name, int width, Start start,
                                            std::uint64_t seed)
    : name_(std::move(name)), width_(static_cast<std::size_t>(width)), start_(start), seed_(seed) {}

// Keys are hashes already; the multiplication spreads keys that a caller made by counting.
template <class T>
std::size_t BasicEmbeddingTable<T>::slot_of(Key key) const {
  const std::size_t mask = slots_.size() - 1;
  std::size_t slot = ((key * 0x9E3779B97F4A7C15ULL) >> 20U) & mask;
  while (slots_[slot] != kNoRow && keys_[slots_[slot]] != key) slot = (slot + 1) & mask;
  return slot;
}

template <class T>
std::uint32_t BasicEmbeddingTable<T>::index_of(Key key) const {
  return slots_.empty() ? kNoRow : slots_[slot_of(key)];
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

template <class T>
std::uint32_t BasicEmbeddingTable<T>::find_or_create(Key key) {
  if (keys_.size() * 2 >= slots_.size()) rehash(std::max<std::size_t>(16, slots_.size() * 2));
  const std::size_t slot = slot_of(key);
  if (slots_[slot] != kNoRow) return slots_[slot];
  SF_CHECK(keys_.size() < kNoRow);
  const auto index = static_cast<std::uint32_t>(keys_.size());
  slots_[slot] = index;
  keys_.push_back(key);
  rows_.resize(rows_.size() + width_);
  fill_start(start_, seed_, name_, key, row_at(index));
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
  for (std::size_t slot = (hole + 1) & mask; slots_[slot] != kNoRow; slot = (slot + 1) & mask) {
    const std::size_t home = ((keys_[slots_[slot]] * 0x9E3779B97F4A7C15ULL) >> 20U) & mask;
    if (((slot - home) & mask) >= ((slot - hole) & mask)) {
      slots_[hole] = slots_[slot];
      hole = slot;
    }
  }
  slots_[hole] = kNoRow;
  if (index != last) {
    slots_[slot_of(keys_[last])] = index;
    keys_[index] = keys_[last];
    std::copy_n(rows_.begin() + static_cast<std::ptrdiff_t>(last * width_), width_,
                rows_.begin() + static_cast<std::ptrdiff_t>(index * width_));
  }
  keys_.pop_back();
  rows_.resize(rows_.size() - width_);
  return last;
}

template <class T>
void BasicEmbeddingTable<T>::reserve(std::size_t rows) {
  keys_.reserve(rows);
  rows_.reserve(rows * width_);
  std::size_t slots = 16;
  while (slots < rows * 2 + 2) slots *= 2;
  if (slots > slots_.size()) rehash(slots);
}

template <class T>
void BasicEmbeddingTable<T>::rehash(std::size_t slots) {
  slots_.assign(slots, kNoRow);
  for (std::uint32_t index = 0; index < keys_.size(); ++index)
    slots_[slot_of(keys_[index])] = index;
}

template <class T>
std::vector<std::uint32_t> BasicEmbeddingTable<T>::sorted_indices() const {
  std::vector<std::uint32_t> indices(keys_.size());
  std::iota(indices.begin(), indices.end(), 0U);
  std::sort(indices.begin(), indices.end(), [this](std::uint32_t a, std::uint32_t b) {
    return static_cast<std::int64_t>(keys_[a]) < static_cast<std::int64_t>(keys_[b]);
  });
  return indices;
}

template class BasicEmbeddingTable<float>;
template class BasicEmbeddingTable<double>;

}  // namespace sirenfeed::model
