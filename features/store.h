#pragma once
// The RocksDB folder: one batch writes all or nothing. Keeps RocksDB out of headers.
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "features/features_config.h"
#include "features/state_keys.h"

namespace sirenfeed::features {

class Store;

/// Writes to come. Threads: one.
class WriteBatch {
 public:
  WriteBatch();
  ~WriteBatch();
  WriteBatch(const WriteBatch&) = delete;
  WriteBatch& operator=(const WriteBatch&) = delete;
  void put(Family family, std::string_view key, std::string_view value);
  void erase(Family family, std::string_view key);
  void clear();
  [[nodiscard]] std::size_t count() const;

 private:
  friend class Store;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// What compactions may drop: ids and tombstones of Family::kExpiring whose time lies below;
/// catalog entries that are forgotten (CatalogItem::forgotten) by `tombstones`.
struct ExpiryFloors {
  std::atomic<base::UnixMs> ids{INT64_MIN};
  std::atomic<base::UnixMs> tombstones{INT64_MIN};
};

/// Threads: any. Errors: kLocked (another process has the folder), kStorage, kCorrupt.
class Store {
 public:
  static base::Result<std::unique_ptr<Store>> open(const StoreConfig& config);
  /// Changes no file and needs no lock; every write fails. kNotFound where there is none.
  static base::Result<std::unique_ptr<Store>> open_read_only(const StoreConfig& config);
  /// kLocked when a process has the folder open; makes nothing.
  static base::Result<void> check_unused(const std::string& dir);
  ~Store();

  [[nodiscard]] base::Result<std::optional<std::string>> get(Family family,
                                                             std::string_view key) const;
  /// In the order of `keys`, all as of one moment.
  [[nodiscard]] base::Result<std::vector<std::optional<std::string>>> multi_get(
      Family family, std::span<const std::string> keys) const;
  /// After a failed write nothing is written until ensure_writable() has succeeded; reads go on.
  base::Result<void> write(WriteBatch& batch);
  base::Result<void> sync();
  /// Takes what was deleted or has expired out of the files now, instead of some time.
  base::Result<void> compact();

  /// What RocksDB holds now. The cache has the blocks of data, indexes and filters and is charged
  /// for the memtables; table_readers is what lies outside of it.
  struct Memory {
    std::uint64_t cache_bytes = 0;
    std::uint64_t memtable_bytes = 0;  // also within cache_bytes
    std::uint64_t table_reader_bytes = 0;
  };
  [[nodiscard]] base::Result<Memory> memory() const;
  /// Opens the database again where a write has failed and the disk takes bytes again. Whether the
  /// failed batch is in it is known only then: what was read before must be read anew when
  /// generation() has changed. Waits for reads under way. Threads: any; one at a time does it.
  base::Result<void> ensure_writable();
  [[nodiscard]] std::uint64_t generation() const;

  /// In key order from `from` while keys start with `prefix`, as of one moment; `visit` returns
  /// false to stop.
  using Visit = std::function<bool(std::string_view key, std::string_view value)>;
  base::Result<void> scan(Family family, std::string_view prefix, std::string_view from,
                          const Visit& visit) const;
  base::Result<void> scan(Family family, std::string_view prefix, const Visit& visit) const {
    return scan(family, prefix, prefix, visit);
  }
  base::Result<void> backup_to(const std::string& dir) const;

  [[nodiscard]] ExpiryFloors& floors();
  [[nodiscard]] const std::string& dir() const;

 private:
  struct Impl;
  explicit Store(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace sirenfeed::features
