#include "app/evaluation_slices.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace sirenfeed::app {
namespace {

using Flags = std::vector<std::uint8_t>;

std::size_t hour_of_day(base::UnixMs time_ms) {
  const base::UnixMs of_day =
      (time_ms % base::kMsPerDay + base::kMsPerDay) % base::kMsPerDay;  // before 1970, too
  return static_cast<std::size_t>(of_day / base::kMsPerHour);
}

Flags peak_hours(const std::vector<trainer::ExposureRow>& rows, std::int64_t zone_offset_ms) {
  std::array<std::size_t, 24> traffic{};
  for (const auto& row : rows) ++traffic[hour_of_day(row.time_ms + zone_offset_ms)];
  std::array<std::size_t, 24> order{};
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return traffic[a] > traffic[b]; });
  std::array<bool, 24> peak{};
  std::size_t covered = 0;
  for (const std::size_t hour : order) {
    if (2 * covered >= rows.size()) break;
    covered += traffic[hour];
    peak[hour] = true;
  }
  Flags inside(rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    inside[i] = peak[hour_of_day(rows[i].time_ms + zone_offset_ms)] ? 1 : 0;
  }
  return inside;
}

/// Rows whose key was seen in fewer than `limit` rows before.
template <class KeyOf>
Flags cold(const std::vector<trainer::ExposureRow>& rows, std::uint32_t limit,
           const KeyOf& key_of) {
  std::unordered_map<std::string_view, std::uint32_t> seen;
  Flags inside(rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    inside[i] = seen[key_of(rows[i])]++ < limit ? 1 : 0;
  }
  return inside;
}

Flags long_tail(const std::vector<trainer::ExposureRow>& rows, double head_share) {
  std::unordered_map<std::string_view, std::size_t> shown;
  for (const auto& row : rows) ++shown[row.item_id];
  std::vector<std::pair<std::size_t, std::string_view>> ranked;
  for (const auto& [item, count] : shown) ranked.emplace_back(count, item);
  std::sort(ranked.begin(), ranked.end(), std::greater<>());
  const auto head = std::min(
      ranked.size(),
      static_cast<std::size_t>(std::llround(head_share * static_cast<double>(ranked.size()))));
  for (std::size_t i = 0; i < head; ++i) shown[ranked[i].second] = 0;  // marks the head
  Flags inside(rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) inside[i] = shown[rows[i].item_id] > 0 ? 1 : 0;
  return inside;
}

}  // namespace

base::Result<void> SliceConfig::validate() const {
  if (head_item_share >= 0 && head_item_share <= 1) return {};
  return base::fail(base::ErrorCode::kInvalidArgument, "--head-share: expected 0 to 1, got {}",
                    head_item_share);
}

std::vector<Slice> make_slices(const std::vector<trainer::ExposureRow>& rows,
                               const SliceConfig& config) {
  std::vector<Slice> slices;
  slices.push_back({"all", "every exposure", Flags(rows.size(), 1)});
  Flags peak = peak_hours(rows, config.zone_offset_ms);
  Flags off_peak(peak.size());
  for (std::size_t i = 0; i < peak.size(); ++i) off_peak[i] = peak[i] == 0 ? 1 : 0;
  slices.push_back(
      {"peak_hours", "the busiest hours of the day, which have half of the traffic", peak});
  slices.push_back({"off_peak_hours", "the other hours of the day", std::move(off_peak)});
  slices.push_back(
      {"cold_items",
       fmt::format("items shown fewer than {} times before", config.cold_item_exposures),
       cold(rows, config.cold_item_exposures,
            [](const trainer::ExposureRow& row) { return std::string_view(row.item_id); })});
  slices.push_back(
      {"cold_users",
       fmt::format("users shown fewer than {} items before", config.cold_user_exposures),
       cold(rows, config.cold_user_exposures,
            [](const trainer::ExposureRow& row) { return std::string_view(row.user_id); })});
  slices.push_back(
      {"long_tail",
       fmt::format("items outside the {:.0f} % that are shown most", 100 * config.head_item_share),
       long_tail(rows, config.head_item_share)});
  return slices;
}

}  // namespace sirenfeed::app
