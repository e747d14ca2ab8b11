#pragma once
// Times as text.
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"

namespace sirenfeed::ingest {

/// "2022-04-24T15:05:41.436Z", "2022-04-24 17:05+02:00", …: date, hours and minutes, optional
/// seconds with optional fraction (cut to ms), and a zone (Z, ±hh:mm, ±hhmm, ±hh). A leap second is
/// the second after it. nullopt: anything else, a date that does not exist included.
[[nodiscard]] std::optional<base::UnixMs> parse_iso8601(std::string_view text) noexcept;

/// "2022-04-24": 00:00 UTC of that day.
[[nodiscard]] std::optional<base::UnixMs> parse_iso_date(std::string_view text) noexcept;

/// "2022-04-24T15:05:41.436Z"
[[nodiscard]] std::string format_iso8601(base::UnixMs time_ms);

}  // namespace sirenfeed::ingest
