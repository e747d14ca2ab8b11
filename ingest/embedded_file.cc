#include "ingest/embedded_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

namespace sirenfeed::ingest::embedded {
namespace {

using base::ErrorCode;

int flags_of(File::Mode mode) {
  switch (mode) {
    case File::Mode::kRead:
      return O_RDONLY | O_CLOEXEC;
    case File::Mode::kReadWrite:
      return O_RDWR | O_CREAT | O_CLOEXEC;
    case File::Mode::kCreate:
      return O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC;
  }
  return O_RDONLY;
}

tl::unexpected<base::Error> system_failure(const char* verb, const std::filesystem::path& path,
                                           int error) {
  return base::fail(ErrorCode::kStorage, "cannot {} {}: {}", verb, path.string(),
                    std::generic_category().message(error));
}

}  // namespace

File::File(File&& other) noexcept
    : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)) {}

File& File::operator=(File&& other) noexcept {
  if (this != &other) {
    if (fd_ >= 0) ::close(fd_);
    path_ = std::move(other.path_);
    fd_ = std::exchange(other.fd_, -1);
  }
  return *this;
}

File::~File() {
  if (fd_ >= 0) ::close(fd_);
}

base::Result<File> File::open(const std::filesystem::path& path, Mode mode) {
  File file;
  file.path_ = path;
  file.fd_ = ::open(path.c_str(), flags_of(mode), 0644);
  if (file.fd_ >= 0) return file;
  if (errno == ENOENT) return base::fail(ErrorCode::kNotFound, "no file {}", path.string());
  return system_failure("open", path, errno);
}

tl::unexpected<base::Error> File::failed(const char* verb) const {
  return system_failure(verb, path_, errno);
}

base::Result<std::uint64_t> File::size() const {
  struct stat info {};
  if (::fstat(fd_, &info) != 0) return failed("stat");
  return static_cast<std::uint64_t>(info.st_size);
}

base::Result<std::size_t> File::read_at(std::uint64_t position, std::size_t bytes,
                                        std::string& out) const {
  const std::size_t before = out.size();
  out.resize(before + bytes);
  std::size_t done = 0;
  while (done < bytes) {
    const ssize_t got =
        ::pread(fd_, out.data() + before + done, bytes - done, static_cast<off_t>(position + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      out.resize(before);
      return failed("read");
    }
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  out.resize(before + done);
  return done;
}

base::Result<void> File::write_at(std::uint64_t position, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t put = ::pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(position));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return failed("write");
    position += static_cast<std::uint64_t>(put);
    bytes.remove_prefix(static_cast<std::size_t>(put));
  }
  return {};
}

base::Result<void> File::sync() {
  if (::fdatasync(fd_) != 0) return failed("fsync");
  return {};
}

base::Result<void> File::truncate(std::uint64_t size) {
  if (::ftruncate(fd_, static_cast<off_t>(size)) != 0) return failed("truncate");
  return {};
}

base::Result<bool> File::try_lock() {
  if (::flock(fd_, LOCK_EX | LOCK_NB) == 0) return true;
  if (errno == EWOULDBLOCK) return false;
  return failed("lock");
}

base::Result<void> sync_dir(const std::filesystem::path& dir) {
  SF_ASSIGN(File file, File::open(dir, File::Mode::kRead));
  return file.sync();
}

base::Result<void> make_dirs(const std::filesystem::path& dir) {
  std::error_code error;
  std::filesystem::create_directories(dir, error);
  if (error) return system_failure("make folder", dir, error.value());
  return {};
}

base::Result<void> replace_file(const std::filesystem::path& path, std::string_view text) {
  std::filesystem::path temporary = path;
  temporary += ".new";
  {
    SF_ASSIGN(File file, File::open(temporary, File::Mode::kCreate));
    SF_TRY(file.write_at(0, text));
    SF_TRY(file.sync());
  }
  std::error_code error;
  std::filesystem::rename(temporary, path, error);
  if (error) return system_failure("rename", temporary, error.value());
  return sync_dir(path.parent_path());
}

}  // namespace sirenfeed::ingest::embedded
