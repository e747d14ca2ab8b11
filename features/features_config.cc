#include "features/features_config.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace sirenfeed::features {
namespace {

base::Result<void> require(bool good, const char* field, const char* expected) {
  if (good) return {};
  return base::fail(base::ErrorCode::kInvalidArgument, "features.{}: expected {}", field, expected);
}

base::Result<void> distinct(const std::vector<std::string>& names, const char* field) {
  const std::set<std::string> unique(names.begin(), names.end());
  return require(unique.size() == names.size() && !unique.contains(""), field,
                 "distinct, non-empty names");
}

}  // namespace

base::Result<void> StoreConfig::validate() const {
  SF_TRY(require(!dir.empty(), "store.dir", "a folder"));
  SF_TRY(require(memtable_bytes >= 1U << 20U, "store.memtable_bytes", "at least 1 MiB"));
  SF_TRY(require(block_cache_bytes >= 1U << 20U, "store.block_cache_bytes", "at least 1 MiB"));
  SF_TRY(require(item_entries_max >= 64, "store.item_entries_max", "at least 64"));
  SF_TRY(require(catalog_entries_max >= 64, "store.catalog_entries_max", "at least 64"));
  return require(wal || !wal_sync, "store.wal_sync", "false where store.wal is false");
}

base::UnixMs JoinConfig::longest_window_ms() const {
  base::UnixMs longest = window_ms;
  for (const ActionWindow& own : action_windows) longest = std::max(longest, own.window_ms);
  return longest;
}

base::Result<void> JoinConfig::validate() const {
  SF_TRY(require(window_ms > 0, "join.window_ms", "more than 0"));
  std::vector<std::string> names;
  for (const ActionWindow& own : action_windows) {
    names.push_back(own.action);
    SF_TRY(require(own.window_ms > 0, "join.action_window_ms", "ACTION=MS with more than 0 ms"));
  }
  SF_TRY(distinct(names, "join.action_window_ms"));
  SF_TRY(require(!(fake_negatives && per_task_close), "join.fake_negatives",
                 "false where per_task_close is true"));
  SF_TRY(require(requests_held_max > 0, "join.requests_held_max", "at least 1"));
  const base::UnixMs longest = longest_window_ms();
  SF_TRY(require(lateness_max_ms >= 0, "join.lateness_max_ms", "at least 0"));
  SF_TRY(require(dedup_horizon_ms >= longest + lateness_max_ms, "join.dedup_horizon_ms",
                 "at least the longest window + lateness_max_ms"));
  SF_TRY(require(tombstone_age_max_ms >= dedup_horizon_ms, "join.tombstone_age_max_ms",
                 "at least dedup_horizon_ms"));
  SF_TRY(require(event_jump_max_ms > longest + lateness_max_ms, "join.event_jump_max_ms",
                 "more than the longest window + lateness_max_ms"));
  return require(event_jump_hold_ms >= 0, "join.event_jump_hold_ms", "at least 0");
}

base::Result<void> CorrectionConfig::validate() const {
  return require(retention_ms >= 0, "corrections_retention_ms", "at least 0");
}

base::Result<void> ContextConfig::validate() const {
  SF_TRY(require(surfaces.size() <= 5, "context.surfaces", "at most 5"));
  SF_TRY(distinct(surfaces, "context.surfaces"));
  SF_TRY(require(!click_action.empty(), "context.click_action", "an action"));
  SF_TRY(require(!long_view_action.empty() && long_view_action != click_action,
                 "context.long_view_action", "an action other than click_action"));
  SF_TRY(require(std::isfinite(duration_unit_s) && duration_unit_s > 0, "context.duration_unit_s",
                 "more than 0"));
  SF_TRY(
      require(std::isfinite(prior_shown) && prior_shown > 0, "context.prior_shown", "more than 0"));
  SF_TRY(require(prior_clicks > 0 && prior_clicks < prior_shown, "context.prior_clicks",
                 "between 0 and prior_shown"));
  return require(prior_long_views > 0 && prior_long_views < prior_shown, "context.prior_long_views",
                 "between 0 and prior_shown");
}

base::Result<void> ExampleConfig::validate() const {
  SF_TRY(require(!actions.empty() && actions.size() <= 32, "example.actions", "1 to 32 names"));
  SF_TRY(distinct(actions, "example.actions"));
  SF_TRY(require(!tasks.empty() && tasks.size() <= 32, "example.tasks", "1 to 32 tasks"));
  std::vector<std::string> names;
  for (const TaskConfig& task : tasks) {
    names.push_back(task.action);
    SF_TRY(require(std::isfinite(task.weight) && task.weight >= 0, "example.tasks.weight",
                   "at least 0"));
  }
  SF_TRY(distinct(names, "example.tasks"));
  SF_TRY(require(history_max <= 4096, "example.history_max", "at most 4096"));
  return require(example_bytes_max >= 1U << 12U, "example.example_bytes_max", "at least 4096");
}

base::Result<void> UserLimits::validate() const {
  SF_TRY(
      require(sequence_max >= 20 && sequence_max <= 1U << 16U, "user.sequence_max", "20 to 65536"));
  SF_TRY(require(seen_max >= 16, "user.seen_max", "at least 16"));
  SF_TRY(require(pairs_max >= 16, "user.pairs_max", "at least 16"));
  return require(std::isfinite(pair_min_weight) && pair_min_weight >= 0, "user.pair_min_weight",
                 "at least 0");
}

base::Result<void> IndexConfig::validate() const {
  return require(items_max > 0, "index.items_max", "more than 0");
}

base::Result<void> FeaturesConfig::validate() const {
  SF_TRY(require(partitions > 0, "partitions", "more than 0"));
  SF_TRY(store.validate());
  SF_TRY(join.validate());
  SF_TRY(corrections.validate());
  SF_TRY(require(corrections.retention_ms <= join.dedup_horizon_ms, "corrections_retention_ms",
                 "at most join.dedup_horizon_ms"));
  SF_TRY(context.validate());
  SF_TRY(example.validate());
  SF_TRY(user.validate());
  SF_TRY(require(example.history_max <= user.sequence_max, "example.history_max",
                 "at most user.sequence_max"));
  return index.validate();
}

}  // namespace sirenfeed::features
