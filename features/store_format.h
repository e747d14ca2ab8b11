#pragma once
// What the keys and values of a store mean, as a number in the store itself (docs/FORMATS.md).
#include <cstdint>
#include <optional>

#include "base/result.h"
#include "features/features_config.h"
#include "features/store.h"
#include "ingest/topic.h"

namespace sirenfeed::features {

/// 1: the first. 2: an erasure's tombstone has the hash of the user's id in its key, not the id.
/// 3: served requests; a partition counts its impressions; what pending ones wait for.
inline constexpr std::uint8_t kStoreFormat = 3;

struct StoreFormat {
  std::uint8_t version = kStoreFormat;
  ingest::Partition partitions = 0;
  bool extended = false;  // ContextConfig::extended
};

/// Nullopt: a new store. kCorrupt: newer than this binary knows, or no format at all.
[[nodiscard]] base::Result<std::optional<StoreFormat>> read_store_format(const Store& store);

/// Writes a new store's format; brings an older one up to date in one batch, so that a crash leaves
/// either. kCorrupt: made for another number of partitions or other features, or as
/// read_store_format(); the message names what helps.
base::Result<void> open_store_format(Store& store, const FeaturesConfig& config);

}  // namespace sirenfeed::features
