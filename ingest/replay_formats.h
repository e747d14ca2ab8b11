#pragma once
// The readers behind open_replay(), one a format. Internal.
#include <memory>

#include "base/result.h"
#include "ingest/replay_input.h"
#include "ingest/replay_reader.h"

namespace sirenfeed::ingest {

[[nodiscard]] base::Result<std::unique_ptr<ReplayReader>> open_kuairand(ReplayInput input);
[[nodiscard]] base::Result<std::unique_ptr<ReplayReader>> open_events(ReplayInput input,
                                                                      const ReplayOptions& options);

}  // namespace sirenfeed::ingest
