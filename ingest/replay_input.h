#pragma once
// A file or standard input, gzipped or not, as bytes and as lines. Internal to the replay readers.
#include <zlib.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace sirenfeed::ingest {

/// Threads: one.
class ReplayInput {
 public:
  /// `path` "-": standard input, called `stdin_name`. kNotFound names the file.
  static base::Result<ReplayInput> open(const std::string& path, const std::string& stdin_name);

  /// Fills `out` with up to `size` bytes; 0: the end. kDecode: truncated or damaged gzip; kStorage.
  base::Result<std::size_t> read(char* out, std::size_t size);
  /// The file's name without its folders.
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] std::uint64_t bytes_read() const;
  [[nodiscard]] std::uint64_t bytes_total() const { return bytes_total_; }

 private:
  struct Close {
    void operator()(gzFile file) const noexcept { gzclose(file); }
  };
  ReplayInput() = default;

  std::string name_;
  std::uint64_t bytes_total_ = 0;
  std::unique_ptr<gzFile_s, Close> file_;
};

/// Lines without their ends (\n or \r\n); the last one may lack it. Threads: one.
class ReplayLines {
 public:
  ReplayLines(ReplayInput input, std::size_t line_bytes_max)
      : input_(std::move(input)), line_bytes_max_(line_bytes_max) {}

  /// Valid until the next call; nullopt: the end. kTooLarge names file, line and limit.
  base::Result<std::optional<std::string_view>> next();
  /// Of the line that next() gave, from 1.
  [[nodiscard]] std::uint64_t number() const { return number_; }
  [[nodiscard]] const ReplayInput& input() const { return input_; }

 private:
  base::Result<bool> fill();
  std::string_view take(std::size_t bytes, std::size_t end_bytes);

  ReplayInput input_;
  const std::size_t line_bytes_max_;
  std::vector<char> buffer_;
  std::size_t begin_ = 0;  // of what is not handed out yet
  std::size_t end_ = 0;
  bool ended_ = false;
  std::uint64_t number_ = 0;
};

}  // namespace sirenfeed::ingest
