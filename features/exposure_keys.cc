#include "features/exposure_keys.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <vector>

#include "base/hash.h"

namespace sirenfeed::features {
namespace {

constexpr double kBucketWidth = 0.4;
constexpr double kBucketLast = 14;

// Of the set, whatever the order in which the tags are listed.
Key tagset_key(const CatalogItem& item) {
  if (item.tag_keys.empty()) return kNoKey;
  std::vector<Key> keys = item.tag_keys;
  std::sort(keys.begin(), keys.end());
  return base::xxh3_64({reinterpret_cast<const char*>(keys.data()), keys.size() * sizeof(Key)});
}

DurationBucket bucket_of_duration(std::optional<double> log_ms) {
  if (!log_ms) return kNoDuration;
  const double bucket = std::trunc((*log_ms - std::log(5000.0)) / kBucketWidth);
  return static_cast<DurationBucket>(std::clamp(bucket, 0.0, kBucketLast));
}

}  // namespace

std::optional<double> log_duration_ms(const ContextConfig& config, const CatalogItem* meta) {
  if (meta == nullptr) return std::nullopt;
  std::optional<double> log_ms;
  for (const auto& [name, value] : meta->numeric) {
    if (name != config.duration_field) continue;
    const double ms = value * config.duration_unit_s * static_cast<double>(base::kMsPerSecond);
    if (std::isfinite(ms)) log_ms = std::log(std::max(ms, 1.0));
  }
  return log_ms;
}

ExposureKeys exposure_keys(const ContextConfig& config, Key item, const CatalogItem* meta,
                           Key surface) {
  ExposureKeys keys;
  keys.item = item;
  keys.surface = surface;
  if (meta == nullptr) return keys;
  keys.author = meta->author;
  keys.tag = meta->first_tag();
  if (!config.extended) return keys;
  keys.tagset = tagset_key(*meta);
  keys.bucket = bucket_of_duration(log_duration_ms(config, meta));
  return keys;
}

std::uint32_t local_hour(const ContextConfig& config, base::UnixMs t) {
  const base::UnixMs day = base::kMsPerDay;
  // Twice, so that no sum overflows.
  const base::UnixMs within = ((t % day + config.zone_offset_ms) % day + day) % day;
  return static_cast<std::uint32_t>(within / base::kMsPerHour);
}

}  // namespace sirenfeed::features
