#include "features/stored_state.h"

#include <array>
#include <optional>

#include "features/partition_state.h"
#include "features/state_keys.h"
#include "features/store.h"

namespace sirenfeed::features {

base::Result<StoredState> read_stored_state(const StoreConfig& config) {
  SF_ASSIGN(const auto store, Store::open_read_only(config));
  SF_ASSIGN(const auto format, read_store_format(*store));
  if (!format) {
    return base::fail(base::ErrorCode::kCorrupt, "{}: a database without a state", config.dir);
  }
  StoredState state{*format, {}};
  const auto add = [&](ingest::TopicPartition source) -> base::Result<void> {
    SF_ASSIGN(const auto value, store->get(Family::kState, position_key(source)));
    if (!value) return {};
    SF_ASSIGN(const InputPosition position, InputPosition::decode(*value));
    if (position.applied) state.positions.emplace_back(source, *position.applied);
    return {};
  };
  constexpr ingest::Partition kItemPartitionsMax = 1024;
  SF_TRY(add({ingest::Topic::kItems, 0}));
  for (ingest::Partition p = 1; p < kItemPartitionsMax; ++p) {
    const std::size_t before = state.positions.size();
    SF_TRY(add({ingest::Topic::kItems, p}));
    if (state.positions.size() == before) break;
  }
  constexpr std::array kTopics = {ingest::Topic::kUsers, ingest::Topic::kRequests,
                                  ingest::Topic::kImpressions, ingest::Topic::kClicks};
  for (const ingest::Topic topic : kTopics) {
    for (ingest::Partition p = 0; p < format->partitions; ++p) SF_TRY(add({topic, p}));
  }
  return state;
}

}  // namespace sirenfeed::features
