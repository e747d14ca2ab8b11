#include "app/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

namespace sirenfeed::app {

base::Result<FolderLock> FolderLock::take(const std::string& dir, Kind kind) {
  using base::ErrorCode, base::fail;
  std::error_code error;
  std::filesystem::create_directories(dir, error);
  if (error) return fail(ErrorCode::kStorage, "{}: cannot be made: {}", dir, error.message());
  const std::string path = dir + "/LOCK";
  const int descriptor = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (descriptor < 0) {
    return fail(ErrorCode::kStorage, "{}: cannot be opened: {}", path, std::strerror(errno));
  }
  if (flock(descriptor, (kind == Kind::kAlone ? LOCK_EX : LOCK_SH) | LOCK_NB) != 0) {
    close(descriptor);
    return fail(ErrorCode::kLocked, "{}: another process uses this folder; stop it or take another",
                dir);
  }
  return FolderLock(descriptor);
}

FolderLock::~FolderLock() {
  if (descriptor_ >= 0) close(descriptor_);
}

}  // namespace sirenfeed::app
