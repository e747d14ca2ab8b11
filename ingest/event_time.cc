#include "ingest/event_time.h"

#include <fmt/format.h>

#include <array>
#include <chrono>
#include <cstddef>

namespace sirenfeed::ingest {
namespace {

bool is_digit(char c) noexcept { return c >= '0' && c <= '9'; }

/// Walks over the text; every method eats what it recognises or leaves the rest as it was.
class Cursor {
 public:
  explicit Cursor(std::string_view text) noexcept : rest_(text) {}
  [[nodiscard]] bool done() const noexcept { return rest_.empty(); }

  std::optional<int> digits(std::size_t count) noexcept {
    if (rest_.size() < count) return std::nullopt;
    int value = 0;
    for (std::size_t i = 0; i < count; ++i) {
      if (!is_digit(rest_[i])) return std::nullopt;
      value = value * 10 + (rest_[i] - '0');
    }
    rest_.remove_prefix(count);
    return value;
  }
  bool one_of(std::string_view allowed, char* found = nullptr) noexcept {
    if (rest_.empty() || allowed.find(rest_.front()) == std::string_view::npos) return false;
    if (found != nullptr) *found = rest_.front();
    rest_.remove_prefix(1);
    return true;
  }
  /// The digits of a fraction, cut to milliseconds; nullopt: not one digit.
  std::optional<int> fraction_ms() noexcept {
    int value = 0;
    std::size_t count = 0;
    for (; count < rest_.size() && is_digit(rest_[count]); ++count) {
      if (count < 3) value = value * 10 + (rest_[count] - '0');
    }
    if (count == 0) return std::nullopt;
    for (std::size_t i = count; i < 3; ++i) value *= 10;
    rest_.remove_prefix(count);
    return value;
  }

 private:
  std::string_view rest_;
};

std::optional<base::UnixMs> read_date(Cursor& cursor) noexcept {
  const auto year = cursor.digits(4);
  if (!year || !cursor.one_of("-")) return std::nullopt;
  const auto month = cursor.digits(2);
  if (!month || !cursor.one_of("-")) return std::nullopt;
  const auto day = cursor.digits(2);
  if (!day) return std::nullopt;
  const std::chrono::year_month_day date(std::chrono::year(*year),
                                         std::chrono::month(static_cast<unsigned>(*month)),
                                         std::chrono::day(static_cast<unsigned>(*day)));
  if (!date.ok()) return std::nullopt;
  return std::chrono::sys_days(date).time_since_epoch().count() * base::kMsPerDay;
}

std::optional<base::UnixMs> read_time_of_day(Cursor& cursor) noexcept {
  const auto hour = cursor.digits(2);
  if (!hour || *hour > 23 || !cursor.one_of(":")) return std::nullopt;
  const auto minute = cursor.digits(2);
  if (!minute || *minute > 59) return std::nullopt;
  base::UnixMs ms = (*hour * 60 + *minute) * 60 * base::kMsPerSecond;
  if (!cursor.one_of(":")) return ms;
  const auto second = cursor.digits(2);
  if (!second || *second > 60) return std::nullopt;
  ms += *second * base::kMsPerSecond;
  if (!cursor.one_of(".,")) return ms;
  const auto fraction = cursor.fraction_ms();
  if (!fraction) return std::nullopt;
  return ms + *fraction;
}

/// What the zone adds to UTC.
std::optional<base::UnixMs> read_zone(Cursor& cursor) noexcept {
  if (cursor.one_of("Zz")) return 0;
  char sign = '+';
  if (!cursor.one_of("+-", &sign)) return std::nullopt;
  const auto hours = cursor.digits(2);
  if (!hours || *hours > 23) return std::nullopt;
  int minutes = 0;
  if (!cursor.done()) {
    cursor.one_of(":");
    const auto given = cursor.digits(2);
    if (!given || *given > 59) return std::nullopt;
    minutes = *given;
  }
  const base::UnixMs ms = (*hours * 60 + minutes) * 60 * base::kMsPerSecond;
  return sign == '-' ? -ms : ms;
}

}  // namespace

std::optional<base::UnixMs> parse_iso8601(std::string_view text) noexcept {
  Cursor cursor(text);
  const auto date = read_date(cursor);
  if (!date || !cursor.one_of("Tt ")) return std::nullopt;
  const auto time = read_time_of_day(cursor);
  if (!time) return std::nullopt;
  const auto zone = read_zone(cursor);
  if (!zone || !cursor.done()) return std::nullopt;
  return *date + *time - *zone;
}

std::optional<base::UnixMs> parse_iso_date(std::string_view text) noexcept {
  Cursor cursor(text);
  const auto date = read_date(cursor);
  if (!date || !cursor.done()) return std::nullopt;
  return date;
}

std::string format_iso8601(base::UnixMs time_ms) {
  using std::chrono::floor;
  const std::chrono::sys_time<std::chrono::milliseconds> time{std::chrono::milliseconds(time_ms)};
  const auto day = floor<std::chrono::days>(time);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss clock(time - day);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                     clock.hours().count(), clock.minutes().count(), clock.seconds().count(),
                     clock.subseconds().count());
}

}  // namespace sirenfeed::ingest
