#pragma once
// The keys that one exposure counts on, and its click after it: as they were when it was shown.
#include <cstdint>
#include <optional>

#include "base/clock.h"
#include "features/catalog_item.h"
#include "features/features_config.h"

namespace sirenfeed::features {

/// Of the duration: clamp(trunc((ln ms − ln 5000)/0.4), 0, 14). An absent one has a bucket of its
/// own.
using DurationBucket = std::uint8_t;
inline constexpr DurationBucket kNoDuration = 255;

struct ExposureKeys {
  Key item = kNoKey;
  Key author = kNoKey;
  Key tag = kNoKey;  // the item's first
  Key surface = kNoKey;
  // Of the extended set; as they stand here where it is off.
  Key tagset = kNoKey;
  DurationBucket bucket = kNoDuration;
};

/// `meta` null: not in the catalog.
[[nodiscard]] ExposureKeys exposure_keys(const ContextConfig& config, Key item,
                                         const CatalogItem* meta, Key surface);

/// ln of the item's duration in ms, at least 0; nullopt where it has none.
[[nodiscard]] std::optional<double> log_duration_ms(const ContextConfig& config,
                                                    const CatalogItem* meta);

/// The pair key user × bucket/2.
[[nodiscard]] inline Key half_bucket_key(DurationBucket bucket) {
  return bucket == kNoDuration ? kNoDuration : bucket / 2U;
}
/// 0 … 23, of local time.
[[nodiscard]] std::uint32_t local_hour(const ContextConfig& config, base::UnixMs t);

}  // namespace sirenfeed::features
