#include "model/time_features.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace sirenfeed::model {
namespace {

constexpr std::int64_t kDayMs = 86'400'000;
constexpr std::int64_t kWeekMs = 7 * kDayMs;
constexpr std::int64_t kHourMs = kDayMs / 24;
constexpr std::int64_t kYearMs = 31'556'952'000;
constexpr double kTurn = 2.0 * std::numbers::pi;

/// Milliseconds since the local week began. The offset is added to the remainder, so that no time
/// overflows.
std::int64_t time_in_week(const ModelConfig& config, std::int64_t time_ms) {
  return floor_mod(floor_mod(time_ms, kWeekMs) + config.zone_offset_ms, kWeekMs);
}

double age_feature(const ModelConfig& config, std::int64_t time_ms) {
  std::int64_t since = 0;
  if (__builtin_sub_overflow(time_ms, config.time_reference_ms, &since)) {
    return time_ms < config.time_reference_ms ? -1.0 : 1.0;
  }
  return std::clamp(static_cast<double>(since) / static_cast<double>(config.time_span_ms), -1.0,
                    1.0);
}

double turn_of(std::int64_t time, std::int64_t period) {
  return kTurn * static_cast<double>(floor_mod(time, period)) / static_cast<double>(period);
}

}  // namespace

std::int64_t floor_mod(std::int64_t value, std::int64_t divisor) {
  const std::int64_t remainder = value % divisor;
  return remainder < 0 ? remainder + divisor : remainder;
}

std::array<double, kTimeFeatureCount> time_features(const ModelConfig& config,
                                                    std::int64_t time_ms) {
  const std::int64_t in_week = time_in_week(config, time_ms);
  const double day = turn_of(in_week, kDayMs);
  const double week = turn_of(in_week, kWeekMs);
  return {std::cos(day), std::sin(day), std::cos(week), std::sin(week),
          age_feature(config, time_ms)};
}

const char* time_scale_name(TimeScale scale) noexcept {
  constexpr std::array<const char*, kTimeScaleCount> kNames = {"hour", "day", "week", "age"};
  return kNames[static_cast<std::size_t>(scale)];
}

std::size_t scale_feature_count(TimeScale scale) noexcept {
  return scale == TimeScale::kAge ? 3 : 4;
}

std::array<double, kScaleFeaturesMax> scale_features(const ModelConfig& config, TimeScale scale,
                                                     std::int64_t time_ms) {
  if (scale == TimeScale::kAge) {
    const double year = turn_of(time_ms, kYearMs);
    return {age_feature(config, time_ms), std::cos(year), std::sin(year), 0.0};
  }
  constexpr std::array<std::array<std::int64_t, 2>, 3> kPeriods = {
      {{kHourMs, 6 * kHourMs}, {kDayMs, kDayMs / 2}, {kWeekMs, kWeekMs / 2}}};
  const std::int64_t in_week = time_in_week(config, time_ms);
  const auto& periods = kPeriods[static_cast<std::size_t>(scale)];
  const double slow = turn_of(in_week, periods[0]);
  const double fast = turn_of(in_week, periods[1]);
  return {std::cos(slow), std::sin(slow), std::cos(fast), std::sin(fast)};
}

}  // namespace sirenfeed::model
