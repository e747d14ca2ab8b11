// One wrong date must not close every window: records far ahead of the watermark wait until others
// confirm that time has really passed.
#include <algorithm>
#include <optional>
#include <set>

#include "base/log.h"
#include "features/applier.h"

namespace sirenfeed::features {
namespace {

constexpr std::size_t kConfirmingUsers = 3;

const std::string& user_of(const ingest::InputRecord& record) {
  const auto& body = std::get<ingest::EventBody>(record.content);
  const auto* impression = std::get_if<ingest::Impression>(&body);
  return impression != nullptr ? impression->user_id : std::get<ingest::Action>(body).user_id;
}

bool merge_before(const HeldRecord& a, const HeldRecord& b) {
  return std::tuple(a.record.time_ms, a.record.source, a.record.offset) <
         std::tuple(b.record.time_ms, b.record.source, b.record.offset);
}

}  // namespace

bool Applier::jumps(const PartitionState& state, base::UnixMs time) const {
  // A partition's first record sets its watermark.
  return state.newest_ms.has_value() && time > watermark(state) + config_.join.event_jump_max_ms;
}

void Applier::hold(PartitionState& state, const ingest::InputRecord& record) {
  base::log_warning("holding {}/{} offset {}: its time is more than event_jump_max ahead",
                    ingest::topic_name(record.source.topic), record.source.partition,
                    record.offset);
  batch_.put(Family::kState, held_key(record.source, record.offset), encode_held(record));
  const auto& steady = wiring_.steady != nullptr ? *wiring_.steady : steady_clock_;
  state.held.push_back({record, steady.now(), state.applied});
}

// Once three users' records lie within event_jump_max of each other, applies them and everything
// before them. What still lies too far ahead of them goes on waiting: it may be the one wrong date.
base::Result<void> Applier::release_confirmed(PartitionState& state) {
  std::sort(state.held.begin(), state.held.end(), merge_before);
  std::optional<base::UnixMs> confirmed_until;
  for (auto begin = state.held.begin(); begin != state.held.end() && !confirmed_until; ++begin) {
    const base::UnixMs until = begin->record.time_ms + config_.join.event_jump_max_ms;
    std::set<std::string_view> users;
    for (auto it = begin; it != state.held.end() && it->record.time_ms <= until; ++it) {
      users.insert(user_of(it->record));
    }
    if (users.size() >= kConfirmingUsers) confirmed_until = until;
  }
  if (!confirmed_until && state.held.size() <= config_.join.event_jump_held_max) return {};
  return settle_held(state, confirmed_until,
                     "its time is more than event_jump_max ahead, and event_jump_held_max records "
                     "were held");
}

// What is held, in merge order: applied up to `confirmed_until`, and beyond it what no longer jumps
// then; without a confirmed time rejected for `reason`.
base::Result<void> Applier::settle_held(PartitionState& state,
                                        std::optional<base::UnixMs> confirmed_until,
                                        const char* reason) {
  std::vector<HeldRecord> held = std::move(state.held);
  state.held.clear();
  std::sort(held.begin(), held.end(), merge_before);
  for (HeldRecord& entry : held) {
    const base::UnixMs time = entry.record.time_ms;
    if (confirmed_until && time > *confirmed_until && jumps(state, time)) {
      state.held.push_back(std::move(entry));
      continue;
    }
    batch_.erase(Family::kState, held_key(entry.record.source, entry.record.offset));
    Outcome outcome = ingest::Rejection{ingest::RejectReason::kEventJump, reason};
    if (confirmed_until) {
      SF_ASSIGN(outcome, apply_timed(state, entry.record));
    }
    settle(entry.record, outcome);
  }
  return {};
}

base::Result<void> Applier::expire_held(PartitionState& state, bool all) {
  const auto& steady = wiring_.steady != nullptr ? *wiring_.steady : steady_clock_;
  const base::SteadyTime now = steady.now();
  const std::chrono::milliseconds hold(config_.join.event_jump_hold_ms);
  const auto expired = [&](const HeldRecord& entry) { return all || now - entry.since >= hold; };
  const auto first = std::find_if(state.held.begin(), state.held.end(), expired);
  if (first == state.held.end()) return {};
  // Where nothing else came all that time and the date is not ahead of the clock, the partition has
  // simply been silent: with fewer than three users it could never go on otherwise.
  const base::UnixMs clock_ms = (wiring_.clock != nullptr ? *wiring_.clock : wall_clock_).now_ms();
  const bool silent =
      !all && std::all_of(state.held.begin(), state.held.end(), [&](const HeldRecord& entry) {
        return entry.applied_before == state.applied && entry.record.time_ms <= clock_ms;
      });
  constexpr const char* kReason =
      "its time is more than event_jump_max ahead of the others, and no records of other users "
      "confirmed it";
  if (silent) return settle_held(state, INT64_MAX, kReason);
  if (all) return settle_held(state, std::nullopt, kReason);
  std::erase_if(state.held, [&](const HeldRecord& entry) {
    if (!expired(entry)) return false;
    batch_.erase(Family::kState, held_key(entry.record.source, entry.record.offset));
    settle(entry.record, ingest::Rejection{ingest::RejectReason::kEventJump, kReason});
    return true;
  });
  return {};
}

}  // namespace sirenfeed::features
