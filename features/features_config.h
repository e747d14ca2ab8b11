#pragma once
// Everything about the state that a deployment may choose, with units and defaults.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "ingest/topic.h"

namespace rocksdb {
class Env;
}

namespace sirenfeed::features {

/// The RocksDB folder and the caches above it.
struct StoreConfig {
  std::string dir;                              // created when missing; one process owns it
  bool wal = true;                              // false: nothing survives a crash (evaluate)
  bool wal_sync = false;                        // true: every batch waits for the disk
  std::size_t block_cache_bytes = 128U << 20U;  // shared with the memtables
  std::size_t memtable_bytes = 64U << 20U;      // of all column families together
  std::size_t user_cache_bytes = 256U << 20U;   // decoded users in the apply thread
  std::size_t item_entries_max = 4'000'000;     // decoded item-side counters in memory
  std::size_t catalog_entries_max = 1'000'000;  // decoded catalog entries in memory
  std::size_t pending_bytes = 256U << 20U;      // open examples kept decoded; the rest on disk
  rocksdb::Env* env = nullptr;                  // files that fail, in tests; null: the real ones
  [[nodiscard]] base::Result<void> validate() const;
};

/// The window of one action type.
struct ActionWindow {
  std::string action;
  base::UnixMs window_ms = 0;
};

/// Windows, lateness and what is remembered (docs/ARCHITECTURE.md, the join).
struct JoinConfig {
  base::UnixMs window_ms = 600'000;          // W: actions with T <= action < T + W + 1 ms
  std::vector<ActionWindow> action_windows;  // W of the types that have one of their own
  /// A task leaves at the end of its own window, not of the longest.
  bool per_task_close = false;
  /// An impression is learned when it is shown, as if nobody would react; each action corrects it
  /// (join_windows.h). Not together with per_task_close.
  bool fake_negatives = false;
  std::size_t requests_held_max = 20'000;  // served requests of one partition; the oldest go first
  base::UnixMs lateness_max_ms = 60'000;   // watermark = greatest applied time - this
  base::UnixMs dedup_horizon_ms = 3 * base::kMsPerDay;       // at least window + lateness
  base::UnixMs tombstone_age_max_ms = 90 * base::kMsPerDay;  // at least the longest retention
  base::UnixMs event_jump_max_ms = base::kMsPerDay;          // further ahead: held
  base::UnixMs event_jump_hold_ms = 600'000;                 // by the steady clock
  std::size_t event_jump_held_max = 1'000;                   // records; the next are dead letters
  /// How long an impression is joined at all.
  [[nodiscard]] base::UnixMs longest_window_ms() const;
  [[nodiscard]] base::Result<void> validate() const;
};

/// Late actions: what of a closed impression is kept, so that one that comes after the window
/// closed still corrects what was learned (docs/ARCHITECTURE.md).
struct CorrectionConfig {
  bool enabled = true;
  base::UnixMs retention_ms = base::kMsPerHour;  // past the window's end, in event time
  std::size_t retained_max = 50'000;  // impressions of one partition; the oldest go first
  [[nodiscard]] base::Result<void> validate() const;
};

/// The context features (docs/FEATURES.md). What is listed here is part of the model's inputs: a
/// change makes another schema.
struct ContextConfig {
  /// One-hot surfaces, at most 5; every other one shares a feature. Five give the 79 of the base
  /// set. The KuaiRand replay sets 0, 1, 2, 4, 6.
  std::vector<std::string> surfaces = {"home", "explore", "following", "related", "search"};
  std::string click_action = "click";
  std::string long_view_action = "long_view";
  std::string duration_field = "duration_s";  // a numeric field of the item
  double duration_unit_s = 1.0;               // seconds in one unit of that field
  double prior_shown = 20;                    // pseudo exposures of the global rates
  double prior_clicks = 9;                    // pseudo clicks among them
  double prior_long_views = 6;
  /// The extended set after the base set, with counters of its own. A store is made with or without
  /// them for good.
  bool extended = false;
  base::UnixMs zone_offset_ms = 0;  // local time for the hour of the extended set
  [[nodiscard]] base::Result<void> validate() const;
};

struct TaskConfig {
  std::string action;
  float weight = 1.0F;
};

struct ExampleConfig {
  /// Configured actions, in the order of the history's action bits; at most 32.
  std::vector<std::string> actions = {"click", "long_view", "like"};
  /// What is learned, in the order of label cells; at most 32.
  std::vector<TaskConfig> tasks = {{"click", 1.0F}, {"long_view", 0.5F}, {"like", 0.2F}};
  std::size_t history_max = 128;  // newest tokens; at most sequence_max
  /// Only exposures with a configured action known before the request are tokens (the newest
  /// history_max of those), as the model's history_kind says.
  bool history_actions_only = false;
  std::size_t example_bytes_max = 900'000;  // a larger slate leaves in parts
  [[nodiscard]] base::Result<void> validate() const;
};

struct UserLimits {
  std::size_t sequence_max = 512;  // newest entries of a user
  std::size_t seen_max = 8'192;    // items remembered as shown; the oldest go first
  std::size_t pairs_max = 4'096;   // counters of user x tag and user x author together
  double pair_min_weight = 0.01;   // above pairs_max, lighter ones go first
  [[nodiscard]] base::Result<void> validate() const;
};

struct IndexConfig {
  bool enabled = true;                // false: candidate indexes are not kept (evaluate, train)
  std::size_t items_max = 1'000'000;  // living items in the indexes; the oldest go first
  [[nodiscard]] base::Result<void> validate() const;
};

struct FeaturesConfig {
  ingest::Partition partitions = 1;  // of impressions, clicks, users, requests and examples
  bool outbox = true;                // false: examples and dead letters only go to the observer
  StoreConfig store;
  JoinConfig join;
  CorrectionConfig corrections;
  ContextConfig context;
  ExampleConfig example;
  UserLimits user;
  IndexConfig index;
  /// Names the first bad field, as `features.join.window_ms: …`.
  [[nodiscard]] base::Result<void> validate() const;
};

}  // namespace sirenfeed::features
