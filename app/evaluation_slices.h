#pragma once
// Parts of an evaluation's rows that are reported on their own.
#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "trainer/exposure_rows.h"

namespace sirenfeed::app {

struct SliceConfig {
  std::uint32_t cold_item_exposures = 10;  // an item is cold while it was shown less often
  std::uint32_t cold_user_exposures = 5;   // a user is cold while they were shown fewer items
  double head_item_share = 0.2;            // the most shown items; the others are the long tail
  std::int64_t zone_offset_ms = 0;         // of the hours of the day
  [[nodiscard]] base::Result<void> validate() const;
};

struct Slice {
  std::string name;  // "all", "peak_hours", …
  std::string description;
  std::vector<std::uint8_t> inside;  // one flag a row
};

/// all; peak_hours (the busiest hours of the day that together have at least half of the rows) and
/// off_peak_hours; cold_items and cold_users (by the exposures before this one, in the order of the
/// pass); long_tail (by the whole pass, hence with hindsight: for reports only).
[[nodiscard]] std::vector<Slice> make_slices(const std::vector<trainer::ExposureRow>& rows,
                                             const SliceConfig& config);

}  // namespace sirenfeed::app
