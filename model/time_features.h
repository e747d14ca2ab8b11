#pragma once
#include <array>
#include <cstdint>

#include "model/config.h"

namespace sirenfeed::model {

inline constexpr std::size_t kTimeFeatureCount = 5;

/// t = [cos, sin of the day; cos, sin of the week; clamp((T − T_ref)/S, −1, 1)]. Integer arithmetic
/// first, for every int64 but kUnknownTime, whose caller has no t.
[[nodiscard]] std::array<double, kTimeFeatureCount> time_features(const ModelConfig& config,
                                                                  std::int64_t time_ms);

/// The scales of the hierarchical variant.
enum class TimeScale { kHour, kDay, kWeek, kAge };
inline constexpr std::size_t kTimeScaleCount = 4;
inline constexpr std::size_t kScaleFeaturesMax = 4;
/// "hour", "day", "week", "age": as in tensor names.
[[nodiscard]] const char* time_scale_name(TimeScale scale) noexcept;
/// Features of a scale: 4, of age 3.
[[nodiscard]] std::size_t scale_feature_count(TimeScale scale) noexcept;
/// hour: cos, sin of T mod 1 h, then of T mod 6 h; day: of 24 h, then 12 h; week: of 7 d, then 84
/// h, all with the zone offset; age: clamp((T − T_ref)/S, −1, 1), then cos, sin of T mod
/// 31,556,952,000 ms (a mean year) without it. The rest of the array is 0.
[[nodiscard]] std::array<double, kScaleFeaturesMax> scale_features(const ModelConfig& config,
                                                                   TimeScale scale,
                                                                   std::int64_t time_ms);

/// The remainder in [0, divisor) that mathematics means; divisor > 0.
[[nodiscard]] std::int64_t floor_mod(std::int64_t value, std::int64_t divisor);

}  // namespace sirenfeed::model
