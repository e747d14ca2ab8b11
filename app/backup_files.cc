#include "app/backup_files.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/hash.h"

namespace sirenfeed::app {
namespace {

namespace fs = std::filesystem;
using base::ErrorCode;
using base::fail;

constexpr std::size_t kChunkBytes = 1U << 20U;

class Descriptor {
 public:
  Descriptor(const fs::path& path, int flags)
      : number_(open(path.c_str(), flags | O_CLOEXEC, 0644)) {}
  ~Descriptor() {
    if (number_ >= 0) close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  [[nodiscard]] int number() const { return number_; }
  [[nodiscard]] bool good() const { return number_ >= 0; }

 private:
  int number_;
};

tl::unexpected<base::Error> refused(const fs::path& path, const char* what) {
  const ErrorCode code = errno == ENOENT ? ErrorCode::kNotFound : ErrorCode::kStorage;
  return fail(code, "{}: {}: {}", path.string(), what, std::strerror(errno));
}

base::Result<void> make_parent(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path.parent_path(), error);
  if (!error) return {};
  return fail(ErrorCode::kStorage, "{}: cannot be made: {}", path.parent_path().string(),
              error.message());
}

base::Result<void> sync_folder(const fs::path& dir) {
  const Descriptor folder(dir, O_RDONLY | O_DIRECTORY);
  if (!folder.good() || fsync(folder.number()) != 0) return refused(dir, "cannot be synced");
  return {};
}

}  // namespace

base::Result<void> copy_durably(const fs::path& from, const fs::path& to,
                                std::optional<std::uint64_t> bytes, const BytesDone& done) {
  SF_TRY(make_parent(to));
  const Descriptor in(from, O_RDONLY);
  if (!in.good()) return refused(from, "cannot be read");
  const Descriptor out(to, O_WRONLY | O_CREAT | O_EXCL);
  if (!out.good()) return refused(to, "cannot be made");
  std::string buffer(kChunkBytes, '\0');
  std::uint64_t left = bytes.value_or(UINT64_MAX);
  while (left > 0) {
    const ssize_t got =
        read(in.number(), buffer.data(), std::min<std::uint64_t>(left, kChunkBytes));
    if (got < 0) return refused(from, "cannot be read");
    if (got == 0) break;
    for (ssize_t written = 0; written < got;) {
      const ssize_t some =
          write(out.number(), buffer.data() + written, static_cast<std::size_t>(got - written));
      if (some < 0) return refused(to, "cannot be written");
      written += some;
    }
    left -= static_cast<std::uint64_t>(got);
    if (done) done(static_cast<std::uint64_t>(got));
  }
  if (bytes && left > 0) {
    return fail(ErrorCode::kCorrupt, "{}: is shorter than {} bytes", from.string(), *bytes);
  }
  if (fsync(out.number()) != 0) return refused(to, "cannot be synced");
  return {};
}

base::Result<void> link_file(const fs::path& from, const fs::path& to) {
  SF_TRY(make_parent(to));
  if (link(from.c_str(), to.c_str()) == 0) return {};
  if (errno == ENOENT) return refused(from, "is gone");
  return copy_durably(from, to);
}

base::Result<std::uint64_t> hash_file(const fs::path& path) {
  const Descriptor file(path, O_RDONLY);
  struct stat status {};
  if (!file.good() || fstat(file.number(), &status) != 0) return refused(path, "cannot be read");
  const auto bytes = static_cast<std::size_t>(status.st_size);
  if (bytes == 0) return base::xxh3_64({});
  void* mapped = mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, file.number(), 0);
  if (mapped == MAP_FAILED) return refused(path, "cannot be read");
  (void)madvise(mapped, bytes, MADV_SEQUENTIAL);
  const std::uint64_t hash = base::xxh3_64({static_cast<const char*>(mapped), bytes});
  munmap(mapped, bytes);
  return hash;
}

base::Result<std::vector<std::string>> list_files(const fs::path& dir) {
  std::vector<std::string> files;
  std::error_code error;
  for (fs::recursive_directory_iterator entry(dir, error), end; !error && entry != end;
       entry.increment(error)) {
    if (entry->is_directory(error)) continue;
    files.push_back(entry->path().lexically_relative(dir).string());
  }
  if (error) {
    return fail(ErrorCode::kStorage, "{}: cannot be listed: {}", dir.string(), error.message());
  }
  std::sort(files.begin(), files.end());
  return files;
}

base::Result<void> sync_folders(const fs::path& dir) {
  std::error_code error;
  for (fs::recursive_directory_iterator entry(dir, error), end; !error && entry != end;
       entry.increment(error)) {
    if (entry->is_directory(error)) SF_TRY(sync_folder(entry->path()));
  }
  SF_TRY(sync_folder(dir));
  return sync_folder(fs::absolute(dir).parent_path());
}

bool is_mount_point(const fs::path& dir) {
  struct stat own {};
  struct stat parent {};
  return stat(dir.c_str(), &own) == 0 && stat((dir / "..").c_str(), &parent) == 0 &&
         own.st_dev != parent.st_dev;
}

bool is_empty_folder(const fs::path& dir) {
  std::error_code error;
  return !fs::exists(dir, error) || (fs::is_directory(dir, error) && fs::is_empty(dir, error));
}

}  // namespace sirenfeed::app
