#pragma once
// The system calls of the embedded log, with errors that name the file and the cause.
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "base/result.h"

namespace sirenfeed::ingest::embedded {

/// An open file. Threads: read_at() any, the rest one.
class File {
 public:
  enum class Mode : std::uint8_t { kRead, kReadWrite, kCreate /* truncates */ };

  File() = default;
  File(File&& other) noexcept;
  File& operator=(File&& other) noexcept;
  ~File();

  /// kNotFound when it does not exist, else kStorage.
  static base::Result<File> open(const std::filesystem::path& path, Mode mode);

  [[nodiscard]] bool is_open() const noexcept { return fd_ >= 0; }
  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }
  base::Result<std::uint64_t> size() const;
  /// Reads up to `bytes` into the end of `out`; returns how many there were.
  base::Result<std::size_t> read_at(std::uint64_t position, std::size_t bytes,
                                    std::string& out) const;
  /// All or an error; after an error some of it may be in the file.
  base::Result<void> write_at(std::uint64_t position, std::string_view bytes);
  base::Result<void> sync();
  base::Result<void> truncate(std::uint64_t size);
  /// False when another holder has the lock. Held until the file is closed.
  base::Result<bool> try_lock();

 private:
  [[nodiscard]] tl::unexpected<base::Error> failed(const char* verb) const;

  std::filesystem::path path_;
  int fd_ = -1;
};

/// Makes new or removed names in `dir` durable.
base::Result<void> sync_dir(const std::filesystem::path& dir);
base::Result<void> make_dirs(const std::filesystem::path& dir);
/// Writes `text` under a temporary name, fsyncs and renames.
base::Result<void> replace_file(const std::filesystem::path& path, std::string_view text);

}  // namespace sirenfeed::ingest::embedded
