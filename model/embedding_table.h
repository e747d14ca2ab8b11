#pragma once
// One table of learned rows, key -> row of fixed width. A row that is not in the table has its
// start value.
//
// Keys, rows and the hash index lie in pages that copies share (paged_array.h): copying a table of
// a million rows to publish it takes microseconds, and costs memory for what is written afterwards.
// Threads: const methods from any thread while nobody writes; one writer. A copy is a table of its
// own and may go to another thread.
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "model/paged_array.h"
#include "model/slate.h"
#include "model/starts.h"

namespace sirenfeed::model {

inline constexpr std::uint32_t kNoRow = std::numeric_limits<std::uint32_t>::max();

/// What makes one table into another: rows to write and keys to erase.
struct TableChanges {
  std::vector<std::uint32_t> written;  // row numbers in the newer table
  std::vector<Key> erased;             // keys that only the older one has
};

template <class T>
class BasicEmbeddingTable {
 public:
  BasicEmbeddingTable() = default;
  /// `name` is the tensor prefix, e.g. "embedding.item".
  BasicEmbeddingTable(std::string name, int width, Start start, std::uint64_t seed);

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] std::size_t width() const { return width_; }
  [[nodiscard]] std::size_t size() const { return keys_.size(); }

  /// Row number of `key`, or kNoRow. Row numbers are dense, 0 … size() − 1, in order of creation
  /// but for what erase() moves.
  [[nodiscard]] std::uint32_t index_of(Key key) const;
  [[nodiscard]] Key key_at(std::uint32_t index) const { return *keys_.at(index); }
  [[nodiscard]] std::span<const T> row_at(std::uint32_t index) const {
    return {rows_.at(index), width_};
  }
  /// To write to, until the table is copied or changed otherwise.
  [[nodiscard]] std::span<T> row_at(std::uint32_t index) { return {rows_.writable(index), width_}; }
  /// The row's values, or the start where it is absent. out: [width].
  void copy_row(Key key, std::span<T> out) const;
  /// copy_row of each key; out: [keys, width]. Many at once hide the memory's latency.
  void copy_rows(std::span<const Key> keys, T* out) const;
  /// The row number of `key`; made with its start value where it is absent.
  std::uint32_t find_or_create(Key key);
  /// Removes the row. The last row takes its number; returns the last row's old number (equal to
  /// the erased one when it was last itself), or kNoRow when the key is absent.
  std::uint32_t erase(Key key);
  void reserve(std::size_t rows);
  /// Row numbers sorted by the keys as int64, the file's order.
  [[nodiscard]] std::vector<std::uint32_t> sorted_indices() const;
  /// The `count` smallest keys as int64 (all, where there are fewer), ascending; O(size) in time.
  [[nodiscard]] std::vector<Key> smallest_keys(std::size_t count) const;
  /// What turns `before` into this table, which is a later state of the same one: rows whose bytes
  /// differ, in order of their number, and erased keys. Looks only at pages that both do not share.
  [[nodiscard]] TableChanges changes_since(const BasicEmbeddingTable& before) const;

 private:
  // 8 rows, 1 KiB at the default width: a second of training touches rows all over a large table,
  // and each of them clones its page.
  static constexpr unsigned kRowPageBits = 3;
  static constexpr unsigned kKeyPageBits = 7;   // 1 KiB
  static constexpr unsigned kSlotPageBits = 8;  // 1 KiB

  void rehash(std::size_t slots);
  [[nodiscard]] std::size_t slot_of(Key key) const;
  [[nodiscard]] static std::size_t home_of(Key key, std::size_t mask) {
    // Keys are hashes already; the multiplication spreads keys that a caller made by counting.
    return ((key * 0x9E3779B97F4A7C15ULL) >> 20U) & mask;
  }

  std::string name_;
  std::size_t width_ = 0;
  Start start_;
  std::uint64_t seed_ = 0;
  PagedArray<Key, kKeyPageBits> keys_;
  PagedArray<T, kRowPageBits> rows_;
  PagedArray<std::uint32_t, kSlotPageBits> slots_;  // open addressing, power of two, kNoRow = free
};

extern template class BasicEmbeddingTable<float>;
extern template class BasicEmbeddingTable<double>;

}  // namespace sirenfeed::model
