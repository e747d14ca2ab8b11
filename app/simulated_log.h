#pragma once
// A recorded log of a simulated world in event form, without a server: every visit is shown items
// drawn at random, so that what is shown says nothing about the user.
#include <functional>
#include <string>

#include "app/simulated_world.h"
#include "base/result.h"

namespace sirenfeed::app {

struct SimulatedLogConfig {
  std::string file;                   // NDJSON in time order; *.gz is gzipped
  std::string truth_file;             // CSV of each shown item's click probability; "": none
  double days = 12;                   // of event time
  std::uint32_t items_per_visit = 1;  // of one impression
  [[nodiscard]] base::Result<void> validate() const;
};

struct SimulatedLogReport {
  std::uint64_t items = 0;
  std::uint64_t impressions = 0;
  std::uint64_t shown = 0;
  std::uint64_t clicks = 0;
  double bayes_auc = 0;       // of the true probabilities against the drawn clicks; NaN: one class
  double bayes_auc_last = 0;  // the same over the last third of the days
  base::UnixMs last_from_ms = 0;
};

/// The world of data/simulated: daily habits alone, no drift, no authors, 600 items at the start.
[[nodiscard]] WorldConfig daily_world(WorldConfig config);

/// Writes both files; the same world and configuration give the same bytes. `on_progress` is told
/// the share that is written.
[[nodiscard]] base::Result<SimulatedLogReport> write_simulated_log(
    const WorldConfig& world, const SimulatedLogConfig& config,
    const std::function<void(double share, std::uint64_t impressions)>& on_progress);

}  // namespace sirenfeed::app
