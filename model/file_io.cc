#include "model/file_io.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

namespace sirenfeed::model {
namespace {

using base::ErrorCode;
using base::fail;

class FileDescriptor {
 public:
  explicit FileDescriptor(int fd) : fd_(fd) {}
  ~FileDescriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  [[nodiscard]] int get() const { return fd_; }

 private:
  int fd_;
};

tl::unexpected<base::Error> os_error(const std::string& path, const char* action) {
  const int error = errno;
  return fail(error == ENOENT ? ErrorCode::kNotFound : ErrorCode::kStorage, "{}: cannot {}: {}",
              path, action, std::strerror(error));
}

}  // namespace

base::Result<std::string> read_file(const std::string& path) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) return os_error(path, "open");
  std::string bytes;
  for (;;) {
    constexpr std::size_t kStep = std::size_t{1} << 20U;
    const std::size_t have = bytes.size();
    bytes.resize(have + kStep);
    const ssize_t got = ::read(file.get(), bytes.data() + have, kStep);
    if (got < 0 && errno != EINTR) return os_error(path, "read");
    bytes.resize(have + static_cast<std::size_t>(got < 0 ? 0 : got));
    if (got == 0) return bytes;
  }
}

base::Result<void> write_file(const std::string& path, std::string_view bytes) {
  const FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC,
                                   S_IRUSR | S_IWUSR | S_IRGRP | S_IROTH));
  if (file.get() < 0) return os_error(path, "create");
  while (!bytes.empty()) {
    const ssize_t put = ::write(file.get(), bytes.data(), bytes.size());
    if (put < 0 && errno != EINTR) return os_error(path, "write");
    if (put > 0) bytes.remove_prefix(static_cast<std::size_t>(put));
  }
  if (::fsync(file.get()) != 0) return os_error(path, "fsync");
  return {};
}

base::Result<void> sync_folder(const std::string& path) {
  const FileDescriptor folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.get() < 0) return os_error(path, "open");
  if (::fsync(folder.get()) != 0) return os_error(path, "fsync");
  return {};
}

base::Result<void> replace_file(const std::string& path, std::string_view bytes) {
  const std::string beside = path + ".new";
  auto written = write_file(beside, bytes);
  if (written && std::rename(beside.c_str(), path.c_str()) != 0) {
    written = os_error(path, "replace");
  }
  if (!written) {
    std::remove(beside.c_str());
    return written;
  }
  const std::string folder = std::filesystem::path(path).parent_path().string();
  return sync_folder(folder.empty() ? "." : folder);
}

}  // namespace sirenfeed::model
