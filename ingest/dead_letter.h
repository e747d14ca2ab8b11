#pragma once
// A rejected record as it lies in topic dead-letters: one JSON object,
// {"topic","partition","offset","log_time","reason","detail","hash","payload_bytes","payload"},
// with "payload_base64" in place of "payload" where the payload is not UTF-8. `hash` is xxh3_64 of
// the whole payload in 16 hex digits; the payload itself is cut at kDeadLetterPayloadMax bytes.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"
#include "ingest/event_sink.h"
#include "ingest/topic.h"

namespace sirenfeed::ingest {

inline constexpr std::size_t kDeadLetterPayloadMax = 64U << 10U;

struct DeadLetter {
  TopicPartition source;
  Offset offset = 0;
  base::UnixMs log_time_ms = 0;
  Rejection rejection;
  std::uint64_t hash = 0;
  std::uint64_t payload_bytes = 0;  // of the original
  std::string payload;              // its beginning
};

/// `rejection` may be the parser's or the state's.
[[nodiscard]] DeadLetter dead_letter_of(const InputRecord& record, const Rejection& rejection);
[[nodiscard]] std::string dead_letter_json(const DeadLetter& letter);
/// kDecode, naming the member that is missing or wrong.
[[nodiscard]] base::Result<DeadLetter> parse_dead_letter(std::string_view json);
/// nullopt: no such reason.
[[nodiscard]] std::optional<RejectReason> reject_reason_from_name(std::string_view name) noexcept;

}  // namespace sirenfeed::ingest
