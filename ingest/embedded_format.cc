#include "ingest/embedded_format.h"

#include <bit>
#include <cstring>

#include "base/hash.h"

namespace sirenfeed::ingest::embedded {
namespace {

static_assert(std::endian::native == std::endian::little, "the files are little-endian");

constexpr std::string_view kMagic = "SIRENLG1";
constexpr std::size_t kBytesAt = 8;
constexpr std::size_t kSettledAt = 12;
constexpr std::size_t kOffsetAt = 16;
constexpr std::size_t kTimeAt = 24;
constexpr std::size_t kFlagsAt = 32;
constexpr std::size_t kKeyBytesAt = 33;
static_assert(kKeyBytesAt + sizeof(std::uint32_t) == kFrameOverheadBytes);

constexpr std::uint8_t kHasKey = 1;
constexpr std::uint8_t kHasValue = 2;

template <class T>
void put(char* at, T value) noexcept {
  std::memcpy(at, &value, sizeof value);
}
template <class T>
T get(const char* at) noexcept {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

}  // namespace

SegmentHeader make_header(Offset base_offset) noexcept {
  SegmentHeader header{};
  std::memcpy(header.data(), kMagic.data(), kMagic.size());
  put(header.data() + kMagic.size(), base_offset);
  return header;
}

std::optional<Offset> parse_header(std::string_view bytes) noexcept {
  if (bytes.size() < kHeaderBytes || !bytes.starts_with(kMagic)) return std::nullopt;
  const auto base_offset = get<Offset>(bytes.data() + kMagic.size());
  return base_offset < 0 ? std::nullopt : std::optional(base_offset);
}

void append_frame(std::string& out, const std::optional<std::string>& key,
                  const std::optional<std::string>& value, base::UnixMs log_time_ms) {
  const std::size_t key_bytes = key ? key->size() : 0;
  const std::size_t frame_bytes = kFrameOverheadBytes + key_bytes + (value ? value->size() : 0);
  std::array<char, kFrameOverheadBytes> fixed{};
  put(fixed.data() + kBytesAt, static_cast<std::uint32_t>(frame_bytes - kFramePrefixBytes));
  put(fixed.data() + kTimeAt, log_time_ms);
  put(fixed.data() + kFlagsAt,
      static_cast<std::uint8_t>((key ? kHasKey : 0) | (value ? kHasValue : 0)));
  put(fixed.data() + kKeyBytesAt, static_cast<std::uint32_t>(key_bytes));
  out.append(fixed.data(), fixed.size());
  if (key) out.append(*key);
  if (value) out.append(*value);
}

void seal_frame(char* frame, std::size_t frame_bytes, Offset offset,
                std::uint32_t settled) noexcept {
  put(frame + kOffsetAt, offset);
  put(frame + kSettledAt, settled);
  put(frame, base::xxh3_64({frame + kBytesAt, frame_bytes - kBytesAt}));
}

ParsedFrame parse_frame(std::string_view bytes) noexcept {
  if (bytes.size() < kFramePrefixBytes) return {FrameState::kIncomplete, {}, kFramePrefixBytes};
  const std::size_t frame_bytes =
      std::size_t{get<std::uint32_t>(bytes.data() + kBytesAt)} + kFramePrefixBytes;
  if (frame_bytes < kFrameOverheadBytes) return {};
  if (bytes.size() < frame_bytes) return {FrameState::kIncomplete, {}, frame_bytes};
  const char* at = bytes.data();
  if (get<std::uint64_t>(at) != base::xxh3_64({at + kBytesAt, frame_bytes - kBytesAt})) return {};
  const auto flags = get<std::uint8_t>(at + kFlagsAt);
  const std::size_t key_bytes = get<std::uint32_t>(at + kKeyBytesAt);
  const std::size_t value_bytes = frame_bytes - kFrameOverheadBytes - key_bytes;
  if (key_bytes > frame_bytes - kFrameOverheadBytes) return {};
  Frame frame;
  frame.bytes = frame_bytes;
  frame.offset = get<Offset>(at + kOffsetAt);
  frame.settled = get<std::uint32_t>(at + kSettledAt);
  frame.log_time_ms = get<base::UnixMs>(at + kTimeAt);
  const char* key = at + kFrameOverheadBytes;
  if ((flags & kHasKey) != 0) frame.key = std::string_view(key, key_bytes);
  if ((flags & kHasValue) != 0) frame.value = std::string_view(key + key_bytes, value_bytes);
  return {FrameState::kComplete, frame, 0};
}

}  // namespace sirenfeed::ingest::embedded
