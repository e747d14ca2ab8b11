#include "model/time_features.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace sirenfeed::model {
namespace {

constexpr std::int64_t kDayMs = 86'400'000;
constexpr std::int64_t kWeekMs = 7 * kDayMs;

}  // namespace

std::int64_t floor_mod(std::int64_t value, std::int64_t divisor) {
  const std::int64_t remainder = value % divisor;
  return remainder < 0 ? remainder + divisor : remainder;
}

std::array<double, kTimeFeatureCount> time_features(const ModelConfig& config,
                                                    std::int64_t time_ms) {
  // The offset is added to the remainder, so that no time overflows.
  const std::int64_t in_week =
      floor_mod(floor_mod(time_ms, kWeekMs) + config.zone_offset_ms, kWeekMs);
  const std::int64_t in_day = in_week % kDayMs;
  constexpr double kTurn = 2.0 * std::numbers::pi;
  const double day = kTurn * static_cast<double>(in_day) / static_cast<double>(kDayMs);
  const double week = kTurn * static_cast<double>(in_week) / static_cast<double>(kWeekMs);
  std::int64_t since = 0;
  double age = time_ms < config.time_reference_ms ? -1.0 : 1.0;
  if (!__builtin_sub_overflow(time_ms, config.time_reference_ms, &since)) {
    age = std::clamp(static_cast<double>(since) / static_cast<double>(config.time_span_ms), -1.0,
                     1.0);
  }
  return {std::cos(day), std::sin(day), std::cos(week), std::sin(week), age};
}

}  // namespace sirenfeed::model
