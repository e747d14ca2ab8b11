#include "ingest/replay_time.h"

#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <string>

#include "ingest/event_time.h"

namespace sirenfeed::ingest {
namespace {

constexpr double kSecondsEnd = 1e11;
constexpr base::UnixMs kTimeEnd = 253'402'300'800'000;  // year 10000

std::optional<base::UnixMs> parse_number(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  const double time_ms = value < kSecondsEnd ? value * 1000 : value;
  if (!(time_ms >= 0 && time_ms < static_cast<double>(kTimeEnd))) return std::nullopt;
  // Seconds with three decimals are not exact in binary: to the nearest microsecond, then down.
  return static_cast<base::UnixMs>(std::floor(time_ms + 1e-3));
}

/// A number of one to `digits_max` digits from `text`, and one of `end` behind it.
std::optional<int> take(std::string_view& text, std::size_t digits_max, char end) {
  int value = 0;
  std::size_t digits = 0;
  for (; digits < text.size() && text[digits] >= '0' && text[digits] <= '9'; ++digits) {
    if (digits == digits_max) return std::nullopt;
    value = value * 10 + (text[digits] - '0');
  }
  if (digits == 0 || digits == text.size() || text[digits] != end) return std::nullopt;
  text.remove_prefix(digits + 1);
  return value;
}

std::optional<base::UnixMs> parse_american(std::string_view text) {
  const auto month = take(text, 2, '/');
  const auto day = take(text, 2, '/');
  const auto year = take(text, 4, ' ');
  const auto hour = take(text, 2, ':');
  const auto minute = take(text, 2, ':');
  const auto second = take(text, 2, ' ');
  if (!month || !day || !year || !hour || !minute || !second) return std::nullopt;
  const bool morning = text == "AM";
  if (!morning && text != "PM") return std::nullopt;
  if (*hour < 1 || *hour > 12 || *minute > 59 || *second > 59) return std::nullopt;
  const std::chrono::year_month_day date(std::chrono::year(*year),
                                         std::chrono::month(static_cast<unsigned>(*month)),
                                         std::chrono::day(static_cast<unsigned>(*day)));
  if (!date.ok()) return std::nullopt;
  const std::int64_t days = std::chrono::sys_days(date).time_since_epoch().count();
  const int hours = *hour % 12 + (morning ? 0 : 12);
  const base::UnixMs time_ms =
      days * base::kMsPerDay + ((hours * 60 + *minute) * 60 + *second) * base::kMsPerSecond;
  return time_ms < 0 ? std::nullopt : std::optional(time_ms);
}

}  // namespace

std::optional<base::UnixMs> parse_replay_time(std::string_view text) {
  if (text.find('/') != std::string_view::npos) return parse_american(text);
  if (text.find('-', 1) == std::string_view::npos || text.find('e') != std::string_view::npos) {
    return parse_number(text);
  }
  auto time = parse_iso8601(text);
  if (!time) time = parse_iso8601(std::string(text) + 'Z');
  if (!time) time = parse_iso_date(text);
  return time && *time >= 0 && *time < kTimeEnd ? time : std::nullopt;
}

}  // namespace sirenfeed::ingest
