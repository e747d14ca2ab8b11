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

/// The remainder in [0, divisor) that mathematics means; divisor > 0.
[[nodiscard]] std::int64_t floor_mod(std::int64_t value, std::int64_t divisor);

}  // namespace sirenfeed::model
