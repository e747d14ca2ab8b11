#pragma once
// Names and small files of a model store's folder, for its writer and its reader.
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "model/manifest.h"

namespace sirenfeed::model {

[[nodiscard]] std::string versions_dir(const std::string& dir);
[[nodiscard]] std::string version_dir(const std::string& dir, std::uint64_t version);
[[nodiscard]] std::string full_path(const std::string& dir, std::uint64_t version);
[[nodiscard]] std::string delta_path(const std::string& dir, std::uint64_t version);
[[nodiscard]] std::string manifest_path(const std::string& dir, std::uint64_t version);

/// The version that a pointer file (CURRENT, PINNED) names; nullopt where the file is absent,
/// kCorrupt where it names none.
[[nodiscard]] base::Result<std::optional<std::uint64_t>> read_pointer(const std::string& path);
/// Version numbers that have a folder, ascending.
[[nodiscard]] base::Result<std::vector<std::uint64_t>> list_versions(const std::string& dir);
/// kNotFound, or kCorrupt: also for the manifest of another version.
[[nodiscard]] base::Result<Manifest> read_manifest(const std::string& dir, std::uint64_t version);
/// The file's bytes, of the length and check-sum that its manifest says; kCorrupt otherwise.
[[nodiscard]] base::Result<std::string> read_checked(const std::string& path,
                                                     const StoredFile& expected);
[[nodiscard]] base::Result<void> make_folder(const std::string& path);

/// A lock among processes, held until it is destroyed; its empty file stays.
class StoreLock {
 public:
  /// Waits until no one else holds `path`. kStorage.
  [[nodiscard]] static base::Result<StoreLock> wait(const std::string& path);
  /// kLocked, which names the path, where someone holds it; kStorage.
  [[nodiscard]] static base::Result<StoreLock> take(const std::string& path);
  StoreLock(StoreLock&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  StoreLock& operator=(StoreLock&&) = delete;
  ~StoreLock();

 private:
  explicit StoreLock(int descriptor) : descriptor_(descriptor) {}
  static base::Result<StoreLock> lock(const std::string& path, int operation);
  int descriptor_;
};

/// Held while versions are removed and while one of them is pinned: a version that was found to be
/// there is there when PINNED names it.
[[nodiscard]] std::string pin_lock_path(const std::string& dir);
/// Held by the one writer for its life.
[[nodiscard]] std::string writer_lock_path(const std::string& dir);

}  // namespace sirenfeed::model
