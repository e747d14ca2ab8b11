#include "features/store_format.h"

#include "base/log.h"
#include "features/encode.h"
#include "features/state_keys.h"

namespace sirenfeed::features {
namespace {

using base::ErrorCode;
using base::fail;

constexpr std::uint8_t kExtendedFlag = 1;

// 1 to 2: 0x01 partition 'x' id → 0x01 partition 'x' hash128.
base::Result<void> hash_tombstones(const Store& store, ingest::Partition partitions,
                                   WriteBatch& batch) {
  for (ingest::Partition p = 0; p < partitions; ++p) {
    const std::string prefix = partition_prefix(p, kErasedLetter);
    SF_TRY(store.scan(Family::kExpiring, prefix, [&](std::string_view key, std::string_view value) {
      const std::string_view id = key.substr(prefix.size() + 1);  // behind its length
      batch.erase(Family::kExpiring, key);
      batch.put(Family::kExpiring, erased_key(p, id), value);
      return true;
    }));
  }
  return {};
}

// format = version · partitions · [1: with the extended set].
void put_format(WriteBatch& batch, const FeaturesConfig& config) {
  std::string value;
  Encoder out(value);
  out.byte(kStoreFormat);
  out.varint(static_cast<std::uint64_t>(config.partitions));
  if (config.context.extended) out.byte(kExtendedFlag);
  batch.put(Family::kState, node_prefix(kFormatLetter), value);
}

base::Result<void> check_same(const StoreFormat& had, const FeaturesConfig& config,
                              const std::string& dir) {
  if (had.partitions != config.partitions) {
    return fail(ErrorCode::kCorrupt,
                "the state folder {} was made for {} partitions, the topics have {}; `sirenfeed "
                "rebuild` makes it anew",
                dir, had.partitions, config.partitions);
  }
  if (had.extended != config.context.extended) {
    return fail(ErrorCode::kCorrupt,
                "the state folder {} was made with --features.extended {}, which is now {}: give "
                "the old value, or `sirenfeed rebuild` makes the state anew",
                dir, had.extended, config.context.extended);
  }
  return {};
}

}  // namespace

base::Result<std::optional<StoreFormat>> read_store_format(const Store& store) {
  SF_ASSIGN(const auto stored, store.get(Family::kState, node_prefix(kFormatLetter)));
  if (!stored) return std::nullopt;
  Decoder in(*stored);
  StoreFormat format;
  format.version = in.byte();
  if (format.version > kStoreFormat) {
    return fail(ErrorCode::kCorrupt,
                "the state folder {} has format {}, this binary knows up to {}: a newer sirenfeed "
                "wrote it; use that one, or `sirenfeed rebuild` makes it anew",
                store.dir(), format.version, kStoreFormat);
  }
  format.partitions = static_cast<ingest::Partition>(in.varint());
  const std::uint8_t flags = in.ok() && !in.at_end() ? in.byte() : std::uint8_t{0};
  format.extended = flags == kExtendedFlag;
  if (format.version == 0 || flags > kExtendedFlag || !in.finished()) {
    return fail(ErrorCode::kCorrupt,
                "the format of the state folder {} cannot be decoded; `sirenfeed rebuild` makes it "
                "anew",
                store.dir());
  }
  return format;
}

base::Result<void> open_store_format(Store& store, const FeaturesConfig& config) {
  SF_ASSIGN(const auto had, read_store_format(store));
  WriteBatch batch;
  put_format(batch, config);
  if (!had) return store.write(batch);
  SF_TRY(check_same(*had, config, store.dir()));
  if (had->version == kStoreFormat) return {};
  if (had->version < 2) SF_TRY(hash_tombstones(store, config.partitions, batch));
  SF_TRY(store.write(batch));
  SF_TRY(store.sync());
  base::log_info("the state folder {} was brought from format {} to {}", store.dir(), had->version,
                 kStoreFormat);
  return {};
}

}  // namespace sirenfeed::features
