#include "features/join_windows.h"

#include <algorithm>
#include <map>

namespace sirenfeed::features {

LeavingRank rank_of(const JoinConfig& config, base::UnixMs closed_ms, base::UnixMs time_ms,
                    ingest::Offset offset) {
  if (config.fake_negatives) return {0, 0, offset};
  return {config.per_task_close ? closed_ms : 0, time_ms, offset};
}

JoinWindows::JoinWindows(const JoinConfig& config, ActionTypes& types,
                         std::span<const ActionType> task_types)
    : by_type_(ActionTypes::kTypesMax, config.window_ms) {
  for (const ActionWindow& own : config.action_windows) {
    const ActionType type = types.intern(own.action);
    // A store whose numbers are used up gives "other", which is not one type.
    if (types.name(type) == own.action) by_type_.at(type) = own.window_ms;
  }
  std::map<base::UnixMs, std::uint32_t> tasks;
  const base::UnixMs longest = config.longest_window_ms();
  tasks[longest] = 0;
  for (std::size_t k = 0; k < task_types.size(); ++k) {
    all_tasks_ |= 1U << k;
    if (config.fake_negatives) continue;  // they leave at once, so only the joining has an end
    tasks[config.per_task_close ? of(task_types[k]) : longest] |= 1U << k;
  }
  for (const auto& [window, bits] : tasks) stages_.push_back({window, bits});
}

std::uint8_t JoinWindows::stage_of(std::uint32_t left) const {
  std::size_t stage = 0;
  while (!last(stage) && (stages_[stage].tasks & ~left) == 0) ++stage;
  return static_cast<std::uint8_t>(stage);
}

}  // namespace sirenfeed::features
