#include "features/store.h"

#include <rocksdb/cache.h>
#include <rocksdb/compaction_filter.h>
#include <rocksdb/db.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/options.h>
#include <rocksdb/slice_transform.h>
#include <rocksdb/table.h>
#include <rocksdb/utilities/checkpoint.h>
#include <rocksdb/write_batch.h>
#include <rocksdb/write_buffer_manager.h>

#include <array>
#include <cstring>
#include <filesystem>

namespace sirenfeed::features {
namespace {

rocksdb::Slice slice(std::string_view bytes) { return {bytes.data(), bytes.size()}; }

base::Error error_of(const rocksdb::Status& status, std::string_view doing,
                     const std::string& dir) {
  using base::ErrorCode;
  const ErrorCode code = status.IsCorruption() ? ErrorCode::kCorrupt : ErrorCode::kStorage;
  return {code, fmt::format("{} in the state folder {}: {}", doing, dir, status.ToString())};
}

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

}  // namespace

struct WriteBatch::Impl {
  std::array<rocksdb::ColumnFamilyHandle*, kFamilies> handles{};
  rocksdb::WriteBatch batch;
};

struct Store::Impl {
  std::string dir;
  ExpiryFloors floors;
  ExpiryFilter filter{floors};
  rocksdb::WriteOptions write_options;
  std::array<rocksdb::ColumnFamilyHandle*, kFamilies> handles{};
  std::unique_ptr<rocksdb::DB> db;

  Impl() = default;
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  ~Impl() {
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

WriteBatch::WriteBatch(const Store& store) : impl_(std::make_unique<Impl>()) {
  impl_->handles = store.impl_->handles;
}
WriteBatch::~WriteBatch() = default;
void WriteBatch::put(Family family, std::string_view key, std::string_view value) {
  (void)impl_->batch.Put(impl_->handles[static_cast<std::size_t>(family)], slice(key),
                         slice(value));
}
void WriteBatch::erase(Family family, std::string_view key) {
  (void)impl_->batch.Delete(impl_->handles[static_cast<std::size_t>(family)], slice(key));
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
  options.create_if_missing = true;
  options.create_missing_column_families = true;
  options.write_buffer_manager =
      std::make_shared<rocksdb::WriteBufferManager>(config.memtable_bytes, cache);
  options.max_background_jobs = 2;
  options.max_total_wal_size = 4 * config.memtable_bytes;
  options.keep_log_file_num = 4;
  options.max_open_files = 512;
  // Without the WAL the column families must reach the disk together.
  options.atomic_flush = !config.wal;
  return options;
}

base::Error open_error(const rocksdb::Status& status, const std::string& dir) {
  const std::string text = status.ToString();
  const auto says = [&](const char* what) { return text.find(what) != std::string::npos; };
  if (says("While lock file") || says("lock hold by current process")) {
    return {base::ErrorCode::kLocked,
            fmt::format("the state folder {} is open in another process (or twice in this one)", dir)};
  }
  return error_of(status, "cannot open a database", dir);
}

}  // namespace

Store::Store(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Store::~Store() = default;

base::Result<std::unique_ptr<Store>> Store::open(const StoreConfig& config) {
  auto impl = std::make_unique<Impl>();
  impl->dir = config.dir;
  std::error_code failure;
  std::filesystem::create_directories(config.dir, failure);
  if (failure) {
    return base::fail(base::ErrorCode::kStorage, "cannot create the state folder {}: {}",
                      config.dir, failure.message());
  }
  const auto cache = rocksdb::NewLRUCache(config.block_cache_bytes);
  rocksdb::ColumnFamilyOptions expiring = family_options(config, cache);
  expiring.compaction_filter = &impl->filter;
  const std::vector<rocksdb::ColumnFamilyDescriptor> families = {
      {rocksdb::kDefaultColumnFamilyName, family_options(config, cache)},
      {"expiring", expiring},
      {"outbox", family_options(config, cache)}};
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  rocksdb::DB* db = nullptr;
  const rocksdb::Status status =
      rocksdb::DB::Open(db_options(config, cache), config.dir, families, &handles, &db);
  if (!status.ok()) return base::fail(open_error(status, config.dir));
  impl->db.reset(db);
  for (std::size_t i = 0; i < kFamilies; ++i) impl->handles[i] = handles[i];
  impl->write_options.disableWAL = !config.wal;
  impl->write_options.sync = config.wal && config.wal_sync;
  return std::unique_ptr<Store>(new Store(std::move(impl)));
}

base::Result<std::optional<std::string>> Store::get(Family family, std::string_view key) const {
  std::string value;
  const rocksdb::Status status =
      impl_->db->Get(rocksdb::ReadOptions(), impl_->handle(family), slice(key), &value);
  if (status.IsNotFound()) return std::nullopt;
  if (!status.ok()) return base::fail(error_of(status, "cannot read", impl_->dir));
  return value;
}

base::Result<std::vector<std::optional<std::string>>> Store::multi_get(
    Family family, std::span<const std::string> keys) const {
  std::vector<rocksdb::Slice> slices(keys.begin(), keys.end());
  std::vector<rocksdb::PinnableSlice> values(keys.size());
  std::vector<rocksdb::Status> statuses(keys.size());
  // With a snapshot the values are of one batch even where MultiGet would look at newer memtables.
  rocksdb::ManagedSnapshot snapshot(impl_->db.get());
  rocksdb::ReadOptions options;
  options.snapshot = snapshot.snapshot();
  impl_->db->MultiGet(options, impl_->handle(family), slices.size(), slices.data(), values.data(),
                      statuses.data());
  std::vector<std::optional<std::string>> result(keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (statuses[i].IsNotFound()) continue;
    if (!statuses[i].ok()) return base::fail(error_of(statuses[i], "cannot read", impl_->dir));
    result[i] = values[i].ToString();
  }
  return result;
}

base::Result<void> Store::write(WriteBatch& batch) {
  const rocksdb::Status status = impl_->db->Write(impl_->write_options, &batch.impl_->batch);
  if (status.ok()) return {};
  // A full disk leaves the database in a read-only state; when there is room again, resuming it
  // makes the next try succeed.
  (void)impl_->db->Resume();
  return base::fail(error_of(status, "cannot write", impl_->dir));
}

base::Result<void> Store::sync() {
  rocksdb::Status status;
  if (impl_->write_options.disableWAL) {
    status =
        impl_->db->Flush(rocksdb::FlushOptions(), {impl_->handles.begin(), impl_->handles.end()});
  } else {
    status = impl_->db->FlushWAL(/*sync=*/true);
  }
  if (!status.ok()) return base::fail(error_of(status, "cannot sync", impl_->dir));
  return {};
}

base::Result<void> Store::scan(Family family, std::string_view prefix, std::string_view from,
                               const Visit& visit) const {
  const std::unique_ptr<rocksdb::Iterator> it(
      impl_->db->NewIterator(rocksdb::ReadOptions(), impl_->handle(family)));
  for (it->Seek(slice(from)); it->Valid() && it->key().starts_with(slice(prefix)); it->Next()) {
    if (!visit({it->key().data(), it->key().size()}, {it->value().data(), it->value().size()})) {
      break;
    }
  }
  if (!it->status().ok()) return base::fail(error_of(it->status(), "cannot read", impl_->dir));
  return {};
}

base::Result<void> Store::backup_to(const std::string& dir) const {
  rocksdb::Checkpoint* raw = nullptr;
  rocksdb::Status status = rocksdb::Checkpoint::Create(impl_->db.get(), &raw);
  const std::unique_ptr<rocksdb::Checkpoint> checkpoint(raw);
  if (status.ok()) status = checkpoint->CreateCheckpoint(dir);
  if (!status.ok()) return base::fail(error_of(status, "cannot back up to " + dir, impl_->dir));
  return {};
}

ExpiryFloors& Store::floors() { return impl_->floors; }
const std::string& Store::dir() const { return impl_->dir; }

}  // namespace sirenfeed::features
