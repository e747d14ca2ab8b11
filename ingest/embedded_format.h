#pragma once
// The bytes of a segment file (docs/FORMATS.md, "Embedded log"). All integers little-endian.
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "ingest/topic.h"

namespace sirenfeed::ingest::embedded {

/// header = "SIRENLG1" base_offset:i64
inline constexpr std::size_t kHeaderBytes = 16;
using SegmentHeader = std::array<char, kHeaderBytes>;
[[nodiscard]] SegmentHeader make_header(Offset base_offset) noexcept;
/// The base offset, or nullopt when `bytes` do not start with a header.
[[nodiscard]] std::optional<Offset> parse_header(std::string_view bytes) noexcept;

/// frame = hash:u64 bytes:u32 settled:u32 offset:i64 log_time_ms:i64 flags:u8 key_bytes:u32
///         key value
/// hash     xxh3_64 of all that follows it
/// bytes    of all that follows this field
/// settled  the position in the file up to which records had been reported as durable when this one
///          was written: damage before it is corruption, damage at or after it may be a torn write
inline constexpr std::size_t kFramePrefixBytes = 12;  // hash and bytes
inline constexpr std::size_t kFrameOverheadBytes = 37;

/// Appends a frame without offset, `settled` and hash, which seal_frame() fills in.
void append_frame(std::string& out, const std::optional<std::string>& key,
                  const std::optional<std::string>& value, base::UnixMs log_time_ms);
void seal_frame(char* frame, std::size_t frame_bytes, Offset offset,
                std::uint32_t settled) noexcept;

/// A frame's fields; views point into the parsed bytes.
struct Frame {
  std::size_t bytes = 0;  // of the whole frame
  Offset offset = 0;
  std::uint32_t settled = 0;
  base::UnixMs log_time_ms = 0;
  std::optional<std::string_view> key;
  std::optional<std::string_view> value;
};

enum class FrameState : std::uint8_t { kComplete, kIncomplete, kBad };

struct ParsedFrame {
  FrameState state = FrameState::kBad;
  Frame frame;                   // when complete
  std::size_t bytes_needed = 0;  // when incomplete: from the frame's start
};
[[nodiscard]] ParsedFrame parse_frame(std::string_view bytes) noexcept;

}  // namespace sirenfeed::ingest::embedded
