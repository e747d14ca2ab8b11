#pragma once
// RocksDB's files on a disk that fails when told to, and that forgets at a power cut what was not
// synced.
#include <rocksdb/env.h>
#include <rocksdb/file_system.h>

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <string>

namespace sirenfeed::test_support {

/// Threads: any.
class FaultFileSystem final : public rocksdb::FileSystemWrapper {
 public:
  FaultFileSystem() : FileSystemWrapper(rocksdb::FileSystem::Default()) {}
  const char* Name() const override { return "FaultFileSystem"; }

  /// Every fsync fails, as of a disk with bad blocks.
  void fail_syncs(bool failing) { syncs_fail_ = failing; }
  /// The n-th write or fsync from now fails, and no other (0: none does).
  void fail_operation(std::uint64_t n) { fail_in_ = n; }
  [[nodiscard]] std::uint64_t operations() const { return operations_; }
  [[nodiscard]] bool has_failed() const { return failed_; }

  /// Files become as long as they were when they were last synced; those that never were go. Only
  /// while no database is open.
  void lose_unsynced() {
    const std::scoped_lock lock(mutex_);
    for (const auto& [path, bytes] : synced_) {
      std::error_code ignored;
      if (!std::filesystem::exists(path, ignored)) continue;
      if (bytes == 0) {
        std::filesystem::remove(path, ignored);
      } else {
        std::filesystem::resize_file(path, bytes, ignored);
      }
    }
  }

  rocksdb::IOStatus NewWritableFile(const std::string& name, const rocksdb::FileOptions& options,
                                    std::unique_ptr<rocksdb::FSWritableFile>* result,
                                    rocksdb::IODebugContext* context) override {
    const auto status = target()->NewWritableFile(name, options, result, context);
    return status.ok() ? wrap(name, 0, result) : status;
  }
  rocksdb::IOStatus ReopenWritableFile(const std::string& name, const rocksdb::FileOptions& options,
                                       std::unique_ptr<rocksdb::FSWritableFile>* result,
                                       rocksdb::IODebugContext* context) override {
    const auto status = target()->ReopenWritableFile(name, options, result, context);
    return status.ok() ? wrap(name, std::filesystem::file_size(name), result) : status;
  }
  rocksdb::IOStatus RenameFile(const std::string& from, const std::string& to,
                               const rocksdb::IOOptions& options,
                               rocksdb::IODebugContext* context) override {
    const auto status = target()->RenameFile(from, to, options, context);
    const std::scoped_lock lock(mutex_);
    const auto found = synced_.find(from);
    if (status.ok() && found != synced_.end()) {
      synced_[to] = found->second;
      synced_.erase(from);
    }
    return status;
  }

 private:
  class File final : public rocksdb::FSWritableFileOwnerWrapper {
   public:
    File(std::unique_ptr<rocksdb::FSWritableFile>&& file, std::string name, FaultFileSystem& disk)
        : FSWritableFileOwnerWrapper(std::move(file)), name_(std::move(name)), disk_(disk) {}

    rocksdb::IOStatus Append(const rocksdb::Slice& data, const rocksdb::IOOptions& options,
                             rocksdb::IODebugContext* context) override {
      if (disk_.fails()) return rocksdb::IOStatus::NoSpace("a write that the test lets fail");
      return FSWritableFileOwnerWrapper::Append(data, options, context);
    }
    rocksdb::IOStatus Append(const rocksdb::Slice& data, const rocksdb::IOOptions& options,
                             const rocksdb::DataVerificationInfo& info,
                             rocksdb::IODebugContext* context) override {
      if (disk_.fails()) return rocksdb::IOStatus::NoSpace("a write that the test lets fail");
      return FSWritableFileOwnerWrapper::Append(data, options, info, context);
    }
    rocksdb::IOStatus Sync(const rocksdb::IOOptions& options,
                           rocksdb::IODebugContext* context) override {
      if (disk_.syncs_fail_ || disk_.fails()) return failed_sync();
      const auto status = FSWritableFileOwnerWrapper::Sync(options, context);
      if (status.ok()) disk_.synced(name_, GetFileSize(options, context));
      return status;
    }
    rocksdb::IOStatus Fsync(const rocksdb::IOOptions& options,
                            rocksdb::IODebugContext* context) override {
      if (disk_.syncs_fail_ || disk_.fails()) return failed_sync();
      const auto status = FSWritableFileOwnerWrapper::Fsync(options, context);
      if (status.ok()) disk_.synced(name_, GetFileSize(options, context));
      return status;
    }

   private:
    static rocksdb::IOStatus failed_sync() {
      return rocksdb::IOStatus::IOError("an fsync that the test lets fail");
    }
    const std::string name_;
    FaultFileSystem& disk_;
  };

  rocksdb::IOStatus wrap(const std::string& name, std::uint64_t synced_bytes,
                         std::unique_ptr<rocksdb::FSWritableFile>* result) {
    synced(name, synced_bytes);
    *result = std::make_unique<File>(std::move(*result), name, *this);
    return rocksdb::IOStatus::OK();
  }
  void synced(const std::string& name, std::uint64_t bytes) {
    const std::scoped_lock lock(mutex_);
    synced_[name] = bytes;
  }
  bool fails() {
    ++operations_;
    std::uint64_t left = fail_in_;
    while (left > 0 && !fail_in_.compare_exchange_weak(left, left - 1)) {
    }
    if (left == 1) failed_ = true;
    return left == 1;
  }

  std::atomic<bool> syncs_fail_{false};
  std::atomic<bool> failed_{false};
  std::atomic<std::uint64_t> fail_in_{0};
  std::atomic<std::uint64_t> operations_{0};
  std::mutex mutex_;
  std::map<std::string, std::uint64_t> synced_;
};

/// An environment for StoreConfig::env over such a disk.
class FaultDisk {
 public:
  FaultDisk()
      : files_(std::make_shared<FaultFileSystem>()), env_(rocksdb::NewCompositeEnv(files_)) {}
  FaultFileSystem* operator->() const { return files_.get(); }
  [[nodiscard]] rocksdb::Env* env() const { return env_.get(); }

 private:
  std::shared_ptr<FaultFileSystem> files_;
  std::unique_ptr<rocksdb::Env> env_;
};

}  // namespace sirenfeed::test_support
