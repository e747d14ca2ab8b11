#pragma once
// What a state folder tells without being opened for writing: a backup, the folder of a stopped
// process.
#include <utility>
#include <vector>

#include "base/result.h"
#include "features/features_config.h"
#include "features/store_format.h"
#include "ingest/event_sink.h"

namespace sirenfeed::features {

struct StoredState {
  StoreFormat format;
  /// The last applied record of every input, in the order of inputs.
  std::vector<std::pair<ingest::TopicPartition, ingest::AppliedPosition>> positions;
};

/// Changes no file. kNotFound: there is no state here; kCorrupt: what cannot be read, or has no
/// format that this binary knows; kStorage.
[[nodiscard]] base::Result<StoredState> read_stored_state(const StoreConfig& config);

}  // namespace sirenfeed::features
