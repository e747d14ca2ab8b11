#pragma once
// Times as recorded inputs spell them. Internal to the replay readers.
#include <optional>
#include <string_view>

#include "base/clock.h"

namespace sirenfeed::ingest {

/// What parse_replay_time() takes, for error messages.
inline constexpr std::string_view kReplayTimes =
    "a time (Unix seconds or milliseconds, ISO-8601, or MM/DD/YYYY HH:MM:SS AM)";

/// A number below 10^11 is Unix seconds (that ends in the year 5138), from there on Unix
/// milliseconds (that begins in 1973); fractions of a millisecond are dropped. ISO-8601 with a zone
/// as in events, and without one, "2022-04-24 15:05:41" or "2022-04-24", in UTC; so is
/// "11/15/2019 9:05:58 AM". nullopt: anything else, negative, or past the year 9999.
[[nodiscard]] std::optional<base::UnixMs> parse_replay_time(std::string_view text);

}  // namespace sirenfeed::ingest
