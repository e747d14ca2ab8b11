#include "features/store.h"

#include <rocksdb/cache.h>
#include <rocksdb/compaction_filter.h>
#include <rocksdb/db.h>
#include <rocksdb/env.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/options.h>
#include <rocksdb/slice_transform.h>
#include <rocksdb/table.h>
#include <rocksdb/utilities/checkpoint.h>
#include <rocksdb/write_batch.h>
#include <rocksdb/write_buffer_manager.h>

#include <array>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <thread>

#include "base/log.h"
#include "base/mutex.h"
#include "features/item_side.h"

namespace sirenfeed::features {
namespace {

rocksdb::Slice slice(std::string_view bytes) { return {bytes.data(), bytes.size()}; }

base::Error error_of(const rocksdb::Status& status, std::string_view doing,
                     const std::string& dir) {
  using base::ErrorCode;
  const ErrorCode code = status.IsCorruption() ? ErrorCode::kCorrupt : ErrorCode::kStorage;
  return {code, fmt::format("{} in the state folder {}: {}", doing, dir, status.ToString())};
}

// RocksDB's own log file would be one more thing that a full disk refuses (and then aborts on):
// what matters of it goes to ours.
class LogForwarder final : public rocksdb::Logger {
 public:
  LogForwarder() : rocksdb::Logger(rocksdb::InfoLogLevel::WARN_LEVEL) {}
  using rocksdb::Logger::Logv;
  void Logv(const char* format, va_list args) override {
    char line[512];
    std::vsnprintf(line, sizeof line, format, args);
    base::log_warning("rocksdb: {}", line);
  }
};

// Values of Family::kExpiring begin with their time (fixed64).
class ExpiryFilter final : public rocksdb::CompactionFilter {
 public:
  explicit ExpiryFilter(const ExpiryFloors& floors) : floors_(floors) {}
  bool Filter(int, const rocksdb::Slice& key, const rocksdb::Slice& value, std::string*,
              bool*) const noexcept override {
    if (key.size() < 6 || value.size() < sizeof(base::UnixMs)) return false;
    base::UnixMs time = 0;
    std::memcpy(&time, value.data(), sizeof time);
    const bool tombstone = key[5] == kErasedLetter;
    return time < (tombstone ? floors_.tombstones : floors_.ids).load(std::memory_order_relaxed);
  }
  const char* Name() const override { return "sirenfeed.expiry"; }

 private:
  const ExpiryFloors& floors_;
};

// Takedowns and stubs in the catalog that nobody asks for any more.
class CatalogFilter final : public rocksdb::CompactionFilter {
 public:
  explicit CatalogFilter(const ExpiryFloors& floors) : floors_(floors) {}
  bool Filter(int, const rocksdb::Slice& key, const rocksdb::Slice& value, std::string*,
              bool*) const noexcept override {
    if (key.size() < 2 || key[0] != 0 || key[1] != kCatalogLetter) return false;
    return catalog_forgotten({value.data(), value.size()},
                             floors_.tombstones.load(std::memory_order_relaxed));
  }
  const char* Name() const override { return "sirenfeed.catalog"; }

 private:
  const ExpiryFloors& floors_;
};

// Names a column family in a batch, also while the database is being opened again: a batch keeps
// nothing of a handle but its number.
class FamilyNumber final : public rocksdb::ColumnFamilyHandle {
 public:
  explicit FamilyNumber(Family family) : number_(static_cast<std::uint32_t>(family)) {}
  const std::string& GetName() const override { return name_; }
  std::uint32_t GetID() const override { return number_; }
  rocksdb::Status GetDescriptor(rocksdb::ColumnFamilyDescriptor* /*desc*/) override {
    return rocksdb::Status::NotSupported();
  }
  const rocksdb::Comparator* GetComparator() const override {
    return rocksdb::BytewiseComparator();
  }

 private:
  const std::uint32_t number_;
  const std::string name_;
};

}  // namespace

struct WriteBatch::Impl {
  std::array<FamilyNumber, kFamilies> families = {
      FamilyNumber(Family::kState), FamilyNumber(Family::kExpiring), FamilyNumber(Family::kOutbox)};
  rocksdb::WriteBatch batch;

  [[nodiscard]] FamilyNumber* family(Family family) {
    return &families[static_cast<std::size_t>(family)];
  }
};

WriteBatch::WriteBatch() : impl_(std::make_unique<Impl>()) {}
WriteBatch::~WriteBatch() = default;
void WriteBatch::put(Family family, std::string_view key, std::string_view value) {
  (void)impl_->batch.Put(impl_->family(family), slice(key), slice(value));
}
void WriteBatch::erase(Family family, std::string_view key) {
  (void)impl_->batch.Delete(impl_->family(family), slice(key));
}
void WriteBatch::clear() { impl_->batch.Clear(); }
std::size_t WriteBatch::count() const { return impl_->batch.Count(); }

namespace {

rocksdb::ColumnFamilyOptions family_options(const StoreConfig& config,
                                            const std::shared_ptr<rocksdb::Cache>& cache) {
  rocksdb::BlockBasedTableOptions table;
  table.block_cache = cache;
  table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
  table.cache_index_and_filter_blocks = true;
  table.pin_l0_filter_and_index_blocks_in_cache = true;
  // Filters in pieces of a few KiB: a whole one is megabytes, and where the cache has no room for
  // it, it is read and checked again for every key that is looked up.
  table.index_type = rocksdb::BlockBasedTableOptions::kTwoLevelIndexSearch;
  table.partition_filters = true;
  rocksdb::ColumnFamilyOptions options;
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  options.write_buffer_size = std::max<std::size_t>(config.memtable_bytes / 2, 1U << 20U);
  // Most lookups of an id or of a pair of keys find nothing: a filter on the memtable says so
  // without a search.
  options.memtable_whole_key_filtering = true;
  options.memtable_prefix_bloom_size_ratio = 0.05;
  options.compression = rocksdb::kLZ4Compression;
  return options;
}

rocksdb::DBOptions db_options(const StoreConfig& config,
                              const std::shared_ptr<rocksdb::Cache>& cache) {
  rocksdb::DBOptions options;
  if (config.env != nullptr) options.env = config.env;
  options.create_if_missing = true;
  options.create_missing_column_families = true;
  options.write_buffer_manager =
      std::make_shared<rocksdb::WriteBufferManager>(config.memtable_bytes, cache);
  options.max_background_jobs = 2;
  options.max_total_wal_size = 4 * config.memtable_bytes;
  // Opening again after a full disk must not need room for a flush.
  options.avoid_flush_during_recovery = true;
  options.info_log = std::make_shared<LogForwarder>();
  options.max_open_files = 512;
  // Without the WAL the column families must reach the disk together.
  options.atomic_flush = !config.wal;
  return options;
}

base::Error open_error(const rocksdb::Status& status, const std::string& dir) {
  const std::string text = status.ToString();
  const auto says = [&](const char* what) { return text.find(what) != std::string::npos; };
  if (says("While lock file") || says("lock hold by current process")) {
    return {
        base::ErrorCode::kLocked,
        fmt::format("the state folder {} is open in another process (or twice in this one)", dir)};
  }
  return error_of(status, "cannot open a database", dir);
}

}  // namespace

// An open database and its families.
struct OpenDatabase {
  std::array<rocksdb::ColumnFamilyHandle*, kFamilies> handles{};
  std::unique_ptr<rocksdb::DB> db;

  OpenDatabase() = default;
  OpenDatabase(const OpenDatabase&) = delete;
  OpenDatabase& operator=(const OpenDatabase&) = delete;
  ~OpenDatabase() {
    if (db == nullptr) return;
    for (rocksdb::ColumnFamilyHandle* handle : handles) {
      if (handle != nullptr) (void)db->DestroyColumnFamilyHandle(handle);
    }
    (void)db->Close();
  }
  [[nodiscard]] rocksdb::ColumnFamilyHandle* handle(Family family) const {
    return handles[static_cast<std::size_t>(family)];
  }
};

struct Store::Impl {
  StoreConfig config;
  ExpiryFloors floors;
  ExpiryFilter filter{floors};
  CatalogFilter catalog_filter{floors};
  rocksdb::WriteOptions write_options;
  std::shared_ptr<rocksdb::Cache> cache;
  std::atomic<bool> broken{false};  // a write failed
  std::atomic<std::uint64_t> generation{0};
  base::Mutex reopening;  // taken before `mutex`
  base::Mutex mutex;
  std::shared_ptr<OpenDatabase> open SF_GUARDED_BY(mutex);  // null: could not be opened again

  base::Result<void> open_database(bool read_only = false);
  // Keeps the database open for as long as the caller holds it.
  base::Result<std::shared_ptr<OpenDatabase>> database() {
    base::MutexLock lock(mutex);
    if (open == nullptr) {
      return base::fail(base::ErrorCode::kStorage,
                        "the state folder {} is closed after a failed write", config.dir);
    }
    return open;
  }
};

Store::Store(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Store::~Store() = default;

base::Result<void> Store::Impl::open_database(bool read_only) {
  rocksdb::ColumnFamilyOptions state = family_options(config, cache);
  state.compaction_filter = &catalog_filter;
  rocksdb::ColumnFamilyOptions expiring = family_options(config, cache);
  expiring.compaction_filter = &filter;
  const std::vector<rocksdb::ColumnFamilyDescriptor> families = {
      {rocksdb::kDefaultColumnFamilyName, state},
      {"expiring", expiring},
      {"outbox", family_options(config, cache)}};
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  rocksdb::DB* db = nullptr;
  const rocksdb::DBOptions options = db_options(config, cache);
  const rocksdb::Status status =
      read_only ? rocksdb::DB::OpenForReadOnly(options, config.dir, families, &handles, &db)
                : rocksdb::DB::Open(options, config.dir, families, &handles, &db);
  if (!status.ok()) return base::fail(open_error(status, config.dir));
  auto opened = std::make_shared<OpenDatabase>();
  opened->db.reset(db);
  for (std::size_t i = 0; i < kFamilies; ++i) {
    opened->handles[i] = handles[i];
    if (handles[i]->GetID() != i) {
      return base::fail(base::ErrorCode::kCorrupt,
                        "the state folder {} holds other column families than ours", config.dir);
    }
  }
  base::MutexLock lock(mutex);
  open = std::move(opened);
  return {};
}

base::Result<std::unique_ptr<Store>> Store::open(const StoreConfig& config) {
  auto impl = std::make_unique<Impl>();
  impl->config = config;
  std::error_code failure;
  std::filesystem::create_directories(config.dir, failure);
  if (failure) {
    return base::fail(base::ErrorCode::kStorage, "cannot create the state folder {}: {}",
                      config.dir, failure.message());
  }
  impl->cache = rocksdb::NewLRUCache(config.block_cache_bytes);
  impl->write_options.disableWAL = !config.wal;
  impl->write_options.sync = config.wal && config.wal_sync;
  SF_TRY(impl->open_database());
  return std::unique_ptr<Store>(new Store(std::move(impl)));
}

base::Result<std::unique_ptr<Store>> Store::open_read_only(const StoreConfig& config) {
  if (!std::filesystem::exists(config.dir + "/CURRENT")) {
    return base::fail(base::ErrorCode::kNotFound, "{}: there is no state here", config.dir);
  }
  auto impl = std::make_unique<Impl>();
  impl->config = config;
  impl->cache = rocksdb::NewLRUCache(config.block_cache_bytes);
  SF_TRY(impl->open_database(/*read_only=*/true));
  impl->broken = true;  // refuses writes
  return std::unique_ptr<Store>(new Store(std::move(impl)));
}

base::Result<void> Store::check_unused(const std::string& dir) {
  const std::string path = dir + "/LOCK";
  if (!std::filesystem::exists(path)) return {};
  rocksdb::Env* env = rocksdb::Env::Default();
  rocksdb::FileLock* lock = nullptr;
  if (!env->LockFile(path, &lock).ok()) {
    return base::fail(base::ErrorCode::kLocked, "the state folder {} is open in another process",
                      dir);
  }
  (void)env->UnlockFile(lock);
  return {};
}

base::Result<std::optional<std::string>> Store::get(Family family, std::string_view key) const {
  SF_ASSIGN(const auto open, impl_->database());
  std::string value;
  const rocksdb::Status status =
      open->db->Get(rocksdb::ReadOptions(), open->handle(family), slice(key), &value);
  if (status.IsNotFound()) return std::nullopt;
  if (!status.ok()) return base::fail(error_of(status, "cannot read", dir()));
  return value;
}

base::Result<std::vector<std::optional<std::string>>> Store::multi_get(
    Family family, std::span<const std::string> keys) const {
  SF_ASSIGN(const auto open, impl_->database());
  std::vector<rocksdb::Slice> slices(keys.begin(), keys.end());
  std::vector<rocksdb::PinnableSlice> values(keys.size());
  std::vector<rocksdb::Status> statuses(keys.size());
  // With a snapshot the values are of one batch even where MultiGet would look at newer memtables.
  rocksdb::ManagedSnapshot snapshot(open->db.get());
  rocksdb::ReadOptions options;
  options.snapshot = snapshot.snapshot();
  open->db->MultiGet(options, open->handle(family), slices.size(), slices.data(), values.data(),
                     statuses.data());
  std::vector<std::optional<std::string>> result(keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (statuses[i].IsNotFound()) continue;
    if (!statuses[i].ok()) return base::fail(error_of(statuses[i], "cannot read", dir()));
    result[i] = values[i].ToString();
  }
  return result;
}

base::Result<void> Store::write(WriteBatch& batch) {
  if (impl_->broken) {
    return base::fail(base::ErrorCode::kStorage,
                      "the state folder {} has refused a write and waits to be opened again",
                      dir());
  }
  SF_ASSIGN(const auto open, impl_->database());
  const rocksdb::Status status = open->db->Write(impl_->write_options, &batch.impl_->batch);
  if (status.ok()) return {};
  impl_->broken = true;
  return base::fail(error_of(status, "cannot write", dir()));
}

namespace {

// Whether the disk takes bytes again: found out before the database, which can still be read, is
// closed.
base::Result<void> try_disk(const StoreConfig& config) {
  rocksdb::Env* env = config.env != nullptr ? config.env : rocksdb::Env::Default();
  const std::string path = config.dir + "/space.probe";
  const rocksdb::Status status =
      rocksdb::WriteStringToFile(env, std::string(1U << 20U, 'x'), path, /*should_sync=*/true);
  (void)env->DeleteFile(path);
  if (status.ok()) return {};
  return base::fail(base::ErrorCode::kStorage,
                    "the state folder {} takes no more bytes (disk full or read-only?): {}",
                    config.dir, status.ToString());
}

}  // namespace

base::Result<void> Store::ensure_writable() {
  if (!impl_->broken) return {};
  base::MutexLock one_at_a_time(impl_->reopening);
  if (!impl_->broken) return {};
  SF_TRY(try_disk(impl_->config));
  std::shared_ptr<OpenDatabase> old;
  {
    base::MutexLock lock(impl_->mutex);
    old = std::exchange(impl_->open, nullptr);
  }
  while (old.use_count() > 1) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  old.reset();
  SF_TRY(impl_->open_database());
  ++impl_->generation;
  impl_->broken = false;
  return {};
}

std::uint64_t Store::generation() const { return impl_->generation; }

base::Result<void> Store::sync() {
  SF_ASSIGN(const auto open, impl_->database());
  rocksdb::Status status;
  if (impl_->write_options.disableWAL) {
    status = open->db->Flush(rocksdb::FlushOptions(), {open->handles.begin(), open->handles.end()});
  } else {
    status = open->db->FlushWAL(/*sync=*/true);
  }
  if (!status.ok()) return base::fail(error_of(status, "cannot sync", dir()));
  return {};
}

base::Result<void> Store::compact() {
  SF_ASSIGN(const auto open, impl_->database());
  rocksdb::CompactRangeOptions options;
  options.bottommost_level_compaction = rocksdb::BottommostLevelCompaction::kForce;
  for (rocksdb::ColumnFamilyHandle* handle : open->handles) {
    const rocksdb::Status status = open->db->CompactRange(options, handle, nullptr, nullptr);
    if (!status.ok()) return base::fail(error_of(status, "cannot compact", dir()));
  }
  return {};
}

base::Result<void> Store::scan(Family family, std::string_view prefix, std::string_view from,
                               const Visit& visit) const {
  SF_ASSIGN(const auto open, impl_->database());
  const std::unique_ptr<rocksdb::Iterator> it(
      open->db->NewIterator(rocksdb::ReadOptions(), open->handle(family)));
  for (it->Seek(slice(from)); it->Valid() && it->key().starts_with(slice(prefix)); it->Next()) {
    if (!visit({it->key().data(), it->key().size()}, {it->value().data(), it->value().size()})) {
      break;
    }
  }
  if (!it->status().ok()) return base::fail(error_of(it->status(), "cannot read", dir()));
  return {};
}

base::Result<void> Store::backup_to(const std::string& dir_to) const {
  SF_ASSIGN(const auto open, impl_->database());
  rocksdb::Checkpoint* raw = nullptr;
  rocksdb::Status status = rocksdb::Checkpoint::Create(open->db.get(), &raw);
  const std::unique_ptr<rocksdb::Checkpoint> checkpoint(raw);
  if (status.ok()) status = checkpoint->CreateCheckpoint(dir_to);
  if (!status.ok()) return base::fail(error_of(status, "cannot back up to " + dir_to, dir()));
  return {};
}

base::Result<Store::Memory> Store::memory() const {
  SF_ASSIGN(const auto open, impl_->database());
  Memory memory;
  memory.cache_bytes = impl_->cache->GetUsage();
  for (rocksdb::ColumnFamilyHandle* handle : open->handles) {
    std::uint64_t bytes = 0;
    if (open->db->GetIntProperty(handle, rocksdb::DB::Properties::kSizeAllMemTables, &bytes)) {
      memory.memtable_bytes += bytes;
    }
    if (open->db->GetIntProperty(handle, rocksdb::DB::Properties::kEstimateTableReadersMem,
                                 &bytes)) {
      memory.table_reader_bytes += bytes;
    }
  }
  return memory;
}

ExpiryFloors& Store::floors() { return impl_->floors; }
const std::string& Store::dir() const { return impl_->config.dir; }

}  // namespace sirenfeed::features
