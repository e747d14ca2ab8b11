#pragma once
// One segment file of a partition: a header and frames with consecutive offsets.
#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/result.h"
#include "ingest/embedded_file.h"
#include "ingest/embedded_format.h"
#include "ingest/event_log.h"

namespace sirenfeed::ingest::embedded {

/// What readers know of a segment. Threads: one (the log's) publishes, any may read.
class Segment {
 public:
  Segment(std::filesystem::path path, Offset base, Offset next, std::uint64_t bytes);

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }
  [[nodiscard]] Offset base() const noexcept { return base_; }
  /// The offset after the last durable record.
  [[nodiscard]] Offset next() const noexcept { return next_.load(std::memory_order_acquire); }
  /// Durable bytes: readers go no further. At least those of the records before next().
  [[nodiscard]] std::uint64_t bytes() const noexcept {
    return bytes_.load(std::memory_order_acquire);
  }
  void publish(Offset next, std::uint64_t bytes) noexcept;

  /// A frame's start at or before `offset`, from a sparse index of the file (one entry each
  /// kIndexStride bytes), which is made when it is asked for. kCorrupt names file and position.
  base::Result<std::uint64_t> locate(Offset offset) SF_EXCLUDES(mutex_);

 private:
  static constexpr std::uint64_t kIndexStride = 256U << 10U;
  struct IndexEntry {
    Offset offset = 0;
    std::uint64_t position = 0;
  };

  const std::filesystem::path path_;
  const Offset base_;
  std::atomic<Offset> next_;
  std::atomic<std::uint64_t> bytes_;
  base::Mutex mutex_;
  std::vector<IndexEntry> index_ SF_GUARDED_BY(mutex_);
};

/// Reads frames of one segment in order, in chunks. Threads: one.
class FrameReader {
 public:
  /// `position`: where a frame starts.
  static base::Result<FrameReader> open(const std::filesystem::path& path, std::uint64_t position);

  /// The frame at position(), which must end at or before `end` (nullopt: position() == end). Its
  /// views live until the next call. kCorrupt when what stands there is no frame.
  base::Result<std::optional<Frame>> peek(std::uint64_t end);
  /// Moves past the frame that peek() gave.
  void advance(const Frame& frame) noexcept;
  [[nodiscard]] std::uint64_t position() const noexcept { return position_; }

 private:
  static constexpr std::size_t kChunkBytes = 256U << 10U;
  base::Result<void> fill(std::size_t bytes_needed, std::uint64_t end);

  File file_;
  std::uint64_t position_ = 0;
  std::string buffer_;
  std::size_t used_ = 0;  // bytes of the buffer before position_
};

/// What recover() found in the last segment of a partition.
struct Recovered {
  Offset next = 0;
  std::uint64_t bytes = 0;       // of the intact frames and the header
  std::uint64_t torn_bytes = 0;  // after them, to be cut off
};

/// Reads a whole segment. What follows the last intact frame is torn unless an intact frame further
/// on shows that it had been durable: then kCorrupt, naming file and position.
base::Result<Recovered> recover(const std::filesystem::path& path, Offset base);

}  // namespace sirenfeed::ingest::embedded
