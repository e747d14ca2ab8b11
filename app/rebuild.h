#pragma once
// The state made anew from the log.
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "app/settings.h"
#include "base/clock.h"
#include "base/result.h"
#include "features/feature_state.h"
#include "ingest/event_log.h"

namespace sirenfeed::app {

struct RebuildOptions {
  std::optional<base::UnixMs> from;  // impressions and clicks before it are left out
};

struct RebuildReport {
  features::Conservation counts;
  std::uint64_t tombstones = 0;
  std::uint64_t left_out = 0;  // before `from`
  /// What the log no longer has, and what else cannot be as it was; empty: nothing is missing.
  std::vector<std::string> missing;
};

using RebuildProgress = std::function<void(std::uint64_t records, std::uint64_t total)>;

/// Erasures and takedowns of topics users and items, read to their end: the newest of each id.
base::Result<std::vector<features::Tombstone>> read_tombstones(ingest::EventLog& log,
                                                               const ingest::ParserConfig& parser,
                                                               const base::Clock& clock);

/// Builds a state beside the old one, from the oldest retained record of every input on, and puts
/// it in the old one's place at the end: until then a failure or a kill changes nothing. Windows
/// stay open as in a running node; what topic examples holds is not sent again (features/
/// align_examples.h), and neither is a dead letter that is there. `progress` is told of the records
/// applied so far, and of all that there are.
///
/// From a complete log the state is the one that merging its records in order gives, but for what a
/// later erasure or takedown makes void. kLocked: a process uses the folder; kNotFound: no log.
base::Result<RebuildReport> rebuild_state(const Settings& settings, const RebuildOptions& options,
                                          const RebuildProgress& progress);

}  // namespace sirenfeed::app
