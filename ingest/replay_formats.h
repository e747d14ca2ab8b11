#pragma once
// The readers behind open_replay(), one a format. Internal.
#include <memory>
#include <optional>

#include "base/result.h"
#include "ingest/replay_input.h"
#include "ingest/replay_reader.h"

namespace sirenfeed::ingest {

[[nodiscard]] base::Result<std::unique_ptr<ReplayReader>> open_kuairand(ReplayInput input);
[[nodiscard]] base::Result<std::unique_ptr<ReplayReader>> open_events(ReplayInput input,
                                                                      const ReplayOptions& options);

/// `items`, `news`: the second file, where there is one.
[[nodiscard]] base::Result<std::unique_ptr<ReplayReader>> open_mind(ReplayInput input,
                                                                    std::optional<ReplayInput> news,
                                                                    const ReplayOptions& options);
[[nodiscard]] base::Result<std::unique_ptr<ReplayReader>> open_movielens(
    ReplayInput input, std::optional<ReplayInput> items, ReplayOptions options);
/// `format`: kCsv or kJsonl.
[[nodiscard]] base::Result<std::unique_ptr<ReplayReader>> open_table(
    ReplayInput input, std::optional<ReplayInput> items, ReplayFormat format,
    const ReplayOptions& options);

}  // namespace sirenfeed::ingest
