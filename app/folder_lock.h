#pragma once
#include <string>
#include <utility>

#include "base/result.h"

namespace sirenfeed::app {

/// Keeps a second process out of a folder (flock on DIR/LOCK); makes the folder when missing.
class FolderLock {
 public:
  enum class Kind {
    kAlone,
    kShared,  // with others that share it
  };
  /// kLocked names the folder; kStorage what the disk refused.
  static base::Result<FolderLock> take(const std::string& dir, Kind kind = Kind::kAlone);
  ~FolderLock();
  FolderLock(FolderLock&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  FolderLock& operator=(FolderLock&&) = delete;

 private:
  explicit FolderLock(int descriptor) : descriptor_(descriptor) {}
  int descriptor_;
};

}  // namespace sirenfeed::app
