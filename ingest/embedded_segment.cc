#include "ingest/embedded_segment.h"

#include <algorithm>
#include <utility>

namespace sirenfeed::ingest::embedded {
namespace {

using base::ErrorCode;

tl::unexpected<base::Error> corrupt(const std::filesystem::path& path, std::uint64_t position,
                                    std::string_view what) {
  return base::fail(ErrorCode::kCorrupt,
                    "{}: byte {}: {}; restore the folder from a backup, or set it aside and start "
                    "with an empty log",
                    path.string(), position, what);
}

/// Is there, after `from`, an intact frame that was written when the bytes at `damaged_at` had been
/// reported as durable? `expected` is the offset of the damaged record.
bool settled_frame_follows(std::string_view bytes, std::size_t from, std::uint64_t damaged_at,
                           Offset expected) {
  for (std::size_t at = from; at + kFrameOverheadBytes <= bytes.size(); ++at) {
    const ParsedFrame parsed = parse_frame(bytes.substr(at));
    if (parsed.state == FrameState::kComplete && parsed.frame.offset > expected &&
        parsed.frame.settled > damaged_at) {
      return true;
    }
  }
  return false;
}

}  // namespace

Segment::Segment(std::filesystem::path path, Offset base, Offset next, std::uint64_t bytes)
    : path_(std::move(path)), base_(base), next_(next), bytes_(bytes) {
  index_.push_back({base, kHeaderBytes});
}

void Segment::publish(Offset next, std::uint64_t bytes) noexcept {
  bytes_.store(bytes, std::memory_order_release);  // first: bytes() covers next()
  next_.store(next, std::memory_order_release);
}

base::Result<std::uint64_t> Segment::locate(Offset offset) {
  const std::uint64_t end = bytes();
  base::MutexLock lock(mutex_);
  if (offset > index_.back().offset && end > index_.back().position + kIndexStride) {
    SF_ASSIGN(FrameReader reader, FrameReader::open(path_, index_.back().position));
    while (true) {
      SF_ASSIGN(const auto frame, reader.peek(end));
      if (!frame) break;
      if (reader.position() >= index_.back().position + kIndexStride) {
        index_.push_back({frame->offset, reader.position()});
      }
      reader.advance(*frame);
    }
  }
  const auto after =
      std::ranges::upper_bound(index_, offset, std::ranges::less{}, &IndexEntry::offset);
  return after == index_.begin() ? kHeaderBytes : std::prev(after)->position;
}

base::Result<FrameReader> FrameReader::open(const std::filesystem::path& path,
                                            std::uint64_t position) {
  FrameReader reader;
  SF_ASSIGN(reader.file_, File::open(path, File::Mode::kRead));
  reader.position_ = position;
  return reader;
}

base::Result<void> FrameReader::fill(std::size_t bytes_needed, std::uint64_t end) {
  buffer_.erase(0, used_);
  used_ = 0;
  const std::uint64_t have_until = position_ + buffer_.size();
  const std::size_t left = static_cast<std::size_t>(end - have_until);
  const std::size_t missing = bytes_needed - buffer_.size();
  if (missing > left) return corrupt(file_.path(), position_, "a record reaches past the end");
  SF_ASSIGN(const std::size_t got,
            file_.read_at(have_until, std::min(left, std::max(kChunkBytes, missing)), buffer_));
  if (got < missing) return corrupt(file_.path(), position_, "the file is shorter than it was");
  return {};
}

base::Result<std::optional<Frame>> FrameReader::peek(std::uint64_t end) {
  while (true) {
    if (position_ >= end) return std::nullopt;
    const ParsedFrame parsed = parse_frame(std::string_view(buffer_).substr(used_));
    if (parsed.state == FrameState::kBad) {
      return corrupt(file_.path(), position_, "a record's check-sum is wrong");
    }
    if (parsed.state == FrameState::kComplete) return parsed.frame;
    SF_TRY(fill(parsed.bytes_needed, end));
  }
}

void FrameReader::advance(const Frame& frame) noexcept {
  used_ += frame.bytes;
  position_ += frame.bytes;
}

base::Result<Recovered> recover(const std::filesystem::path& path, Offset base) {
  std::string bytes;
  {
    SF_ASSIGN(const File file, File::open(path, File::Mode::kRead));
    SF_ASSIGN(const std::uint64_t size, file.size());
    SF_ASSIGN(const std::size_t got, file.read_at(0, static_cast<std::size_t>(size), bytes));
    if (got < size) return corrupt(path, got, "the file is shorter than its size");
  }
  if (bytes.size() < kHeaderBytes) return Recovered{base, 0, bytes.size()};  // made, not yet begun
  if (parse_header(bytes) != base) return corrupt(path, 0, "no segment header of this name");
  Recovered found{base, kHeaderBytes, 0};
  while (found.bytes < bytes.size()) {
    const ParsedFrame parsed = parse_frame(std::string_view(bytes).substr(found.bytes));
    const bool intact = parsed.state == FrameState::kComplete && parsed.frame.offset == found.next;
    if (!intact) {
      if (settled_frame_follows(bytes, found.bytes + 1, found.bytes, found.next)) {
        return corrupt(path, found.bytes, "a durable record is damaged");
      }
      found.torn_bytes = bytes.size() - found.bytes;
      break;
    }
    found.bytes += parsed.frame.bytes;
    ++found.next;
  }
  return found;
}

}  // namespace sirenfeed::ingest::embedded
