#include "model/store_files.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>

#include "base/hash.h"
#include "model/file_io.h"

namespace sirenfeed::model {

namespace fs = std::filesystem;
using base::ErrorCode;
using base::fail;

namespace {

std::optional<std::uint64_t> parse_version(std::string_view text) {
  if (!text.empty() && text.back() == '\n') text.remove_suffix(1);
  std::uint64_t version = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), version);
  if (error != std::errc{} || end != text.data() + text.size() || version == 0) return std::nullopt;
  return version;
}

}  // namespace

std::string versions_dir(const std::string& dir) { return dir + "/versions"; }
std::string version_dir(const std::string& dir, std::uint64_t version) {
  return versions_dir(dir) + "/" + std::to_string(version);
}
std::string full_path(const std::string& dir, std::uint64_t version) {
  return version_dir(dir, version) + "/model.safetensors";
}
std::string delta_path(const std::string& dir, std::uint64_t version) {
  return version_dir(dir, version) + "/delta.safetensors";
}
std::string manifest_path(const std::string& dir, std::uint64_t version) {
  return version_dir(dir, version) + "/manifest.json";
}

base::Result<std::optional<std::uint64_t>> read_pointer(const std::string& path) {
  const auto text = read_file(path);
  if (!text && text.error().code == ErrorCode::kNotFound) return std::optional<std::uint64_t>();
  if (!text) return fail(text.error());
  if (text->empty()) return fail(ErrorCode::kCorrupt, "{}: is empty, not a version number", path);
  const auto version = parse_version(*text);
  if (!version) return fail(ErrorCode::kCorrupt, "{}: not a version number", path);
  return version;
}

base::Result<std::vector<std::uint64_t>> list_versions(const std::string& dir) {
  std::vector<std::uint64_t> versions;
  std::error_code error;
  for (fs::directory_iterator entry(versions_dir(dir), error), end; !error && entry != end;
       entry.increment(error)) {
    if (const auto version = parse_version(entry->path().filename().string())) {
      versions.push_back(*version);
    }
  }
  if (error && error != std::errc::no_such_file_or_directory) {
    return fail(ErrorCode::kStorage, "{}: cannot list: {}", versions_dir(dir), error.message());
  }
  std::sort(versions.begin(), versions.end());
  return versions;
}

base::Result<Manifest> read_manifest(const std::string& dir, std::uint64_t version) {
  const std::string path = manifest_path(dir, version);
  SF_ASSIGN(const std::string text, read_file(path));
  SF_ASSIGN(Manifest manifest, manifest_from_json(path, text));
  if (manifest.version != version) {
    return fail(ErrorCode::kCorrupt, "{}: is of version {}", path, manifest.version);
  }
  return manifest;
}

base::Result<std::string> read_checked(const std::string& path, const StoredFile& expected) {
  SF_ASSIGN(std::string bytes, read_file(path));
  if (bytes.size() != expected.bytes || base::xxh3_64(bytes) != expected.xxh3) {
    return fail(ErrorCode::kCorrupt, "the check-sum of {} is not the manifest's",
                fs::path(path).filename().string());
  }
  return bytes;
}

base::Result<void> make_folder(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) return fail(ErrorCode::kStorage, "{}: cannot create: {}", path, error.message());
  return {};
}

std::string pin_lock_path(const std::string& dir) { return dir + "/PIN_LOCK"; }
std::string writer_lock_path(const std::string& dir) { return dir + "/WRITER_LOCK"; }

base::Result<StoreLock> StoreLock::lock(const std::string& path, int operation) {
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (descriptor < 0) {
    return fail(ErrorCode::kStorage, "{}: cannot be opened: {}", path, std::strerror(errno));
  }
  StoreLock lock(descriptor);
  while (::flock(descriptor, operation) != 0) {
    if (errno == EINTR) continue;
    if (errno == EWOULDBLOCK) return fail(ErrorCode::kLocked, "{} is held", path);
    return fail(ErrorCode::kStorage, "{}: cannot be locked: {}", path, std::strerror(errno));
  }
  return lock;
}

base::Result<StoreLock> StoreLock::wait(const std::string& path) { return lock(path, LOCK_EX); }
base::Result<StoreLock> StoreLock::take(const std::string& path) {
  return lock(path, LOCK_EX | LOCK_NB);
}

StoreLock::~StoreLock() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

}  // namespace sirenfeed::model
