#pragma once
// Users of a simulated world who read the served feed and react: a closed loop over HTTP.
#include <functional>
#include <stop_token>
#include <string>

#include "app/http_client.h"
#include "app/simulated_world.h"

namespace sirenfeed::app {

struct SimulatorConfig {
  std::uint32_t feed_count = 5;  // items a visit is shown
  double speed = 0;              // event seconds per second of wall time; 0: as fast as served
  double days = 7;               // of event time
  std::chrono::milliseconds request_timeout{5000};
  std::chrono::milliseconds ready_wait_max{30000};    // for the server to answer at the start
  std::chrono::milliseconds backlog_wait_max{60000};  // how long 429 and 503 are waited out
  [[nodiscard]] base::Result<void> validate() const;
};

/// What the users saw, against what they could have seen. Sums of true click probabilities.
struct SimulatorReport {
  std::uint64_t visits = 0;
  std::uint64_t visits_without_feed = 0;  // the server had no item to show
  std::uint64_t shown = 0;
  std::uint64_t clicks = 0;
  std::uint64_t unknown_items = 0;  // served, but not of this world
  double served_sum = 0;            // of the items shown
  double best_sum = 0;              // of the Bayes ranker's choice of as many items
  double random_sum = 0;            // of a random choice, in expectation
  base::UnixMs time_ms = 0;

  /// Expected clicks lost per item shown, against the Bayes ranker.
  [[nodiscard]] double regret_per_item() const;
  /// 0: as good as random; 1: as good as the Bayes ranker.
  [[nodiscard]] double share_of_optimum() const;
};

struct SimulatorCallbacks {
  /// What is waited for before the first visit; about every two seconds.
  std::function<void(const std::string& what)> on_wait;
  /// About once a simulated hour: that hour and the whole run.
  std::function<void(const SimulatorReport& hour, const SimulatorReport& total)> on_progress;
};

/// Runs until `config.days` have passed or `stop`.
///
/// The first visit comes after `world`.start_ms and after what the server takes for now (the
/// greatest event time that it has applied, where its clock is that), so that a used data folder
/// sees no visit behind its watermark. The world is the same all the same: a later run goes on with
/// the items and habits of the earlier one. What earlier runs have shown is not known to it: for an
/// item life after a resumption the optimum counts items that users have seen before.
/// Impressions are called sim-SEED-BEGIN-N, so that no two runs share an id.
base::Result<SimulatorReport> simulate(const WorldConfig& world, const SimulatorConfig& config,
                                       HttpClient& client, const std::stop_token& stop,
                                       const SimulatorCallbacks& callbacks);

}  // namespace sirenfeed::app
