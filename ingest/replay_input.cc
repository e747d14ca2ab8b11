#include "ingest/replay_input.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

namespace sirenfeed::ingest {

using base::ErrorCode;

constexpr unsigned kGzipBuffer = 256U << 10U;
constexpr std::size_t kReadBytes = 256U << 10U;

base::Result<ReplayInput> ReplayInput::open(const std::string& path,
                                            const std::string& stdin_name) {
  ReplayInput input;
  errno = 0;
  if (path == "-") {
    input.name_ = stdin_name;
    const int descriptor = dup(STDIN_FILENO);
    if (descriptor >= 0) input.file_.reset(gzdopen(descriptor, "rb"));
  } else {
    input.name_ = std::filesystem::path(path).filename().string();
    std::error_code ignored;
    const auto bytes = std::filesystem::file_size(path, ignored);
    if (!ignored) input.bytes_total_ = bytes;
    input.file_.reset(gzopen(path.c_str(), "rb"));
  }
  if (!input.file_) {
    return base::fail(errno == ENOENT ? ErrorCode::kNotFound : ErrorCode::kStorage,
                      "{}: cannot be opened: {}", path, std::strerror(errno));
  }
  gzbuffer(input.file_.get(), kGzipBuffer);
  return input;
}

base::Result<std::size_t> ReplayInput::read(char* out, std::size_t size) {
  const auto wanted = static_cast<unsigned>(std::min<std::size_t>(size, 1U << 30U));
  const int got = gzread(file_.get(), out, wanted);
  if (got == static_cast<int>(wanted)) return wanted;
  int error = Z_OK;
  const char* text = gzerror(file_.get(), &error);
  if (error == Z_ERRNO) {
    return base::fail(ErrorCode::kStorage, "{}: cannot be read: {}", name_, std::strerror(errno));
  }
  if (error < 0) {
    return base::fail(ErrorCode::kDecode, "{}: expected a whole gzip file: {}", name_, text);
  }
  return static_cast<std::size_t>(std::max(got, 0));
}

std::uint64_t ReplayInput::bytes_read() const {
  const auto offset = gzoffset(file_.get());
  return offset < 0 ? 0 : static_cast<std::uint64_t>(offset);
}

/// Makes room and reads more behind what is there; false at the end of the input.
base::Result<bool> ReplayLines::fill() {
  if (ended_) return false;
  if (begin_ > 0) {
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  if (buffer_.size() < end_ + kReadBytes) buffer_.resize(end_ + kReadBytes);
  SF_ASSIGN(const std::size_t got, input_.read(buffer_.data() + end_, kReadBytes));
  end_ += got;
  ended_ = got == 0;
  return got > 0;
}

std::string_view ReplayLines::take(std::size_t bytes, std::size_t end_bytes) {
  std::string_view line(buffer_.data() + begin_, bytes);
  begin_ += bytes + end_bytes;
  ++number_;
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

base::Result<std::optional<std::string_view>> ReplayLines::next() {
  std::size_t searched = 0;
  while (true) {
    const char* from = buffer_.data() + begin_ + searched;
    const std::size_t length = end_ - begin_ - searched;
    const void* found = length == 0 ? nullptr : std::memchr(from, '\n', length);
    const std::size_t bytes =
        found == nullptr
            ? end_ - begin_
            : static_cast<std::size_t>(static_cast<const char*>(found) - buffer_.data()) - begin_;
    if (bytes > line_bytes_max_) {
      return base::fail(ErrorCode::kTooLarge, "{}:{}: expected at most {} bytes (line_bytes_max)",
                        input_.name(), number_ + 1, line_bytes_max_);
    }
    if (found != nullptr) return take(bytes, 1);
    searched = bytes;
    SF_ASSIGN(const bool more, fill());
    if (more) continue;
    if (bytes == 0) return std::nullopt;
    return take(bytes, 0);
  }
}

}  // namespace sirenfeed::ingest
