#pragma once
// Mean, spread and percentiles of a few values.
#include <vector>

namespace sirenfeed::app {

/// NaN where a value is NaN or there is none.
[[nodiscard]] double mean_of(const std::vector<double>& values);
/// With n − 1; NaN for fewer than two values.
[[nodiscard]] double deviation_of(const std::vector<double>& values);
/// The value below which `share` of the values lie, linear between neighbours (as numpy's default);
/// values that are NaN are left out, none left gives NaN.
[[nodiscard]] double percentile_of(std::vector<double> values, double share);

}  // namespace sirenfeed::app
