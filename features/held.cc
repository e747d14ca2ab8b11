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
  state.held.push_back({record, steady.now()});
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
  std::vector<HeldRecord> held = std::move(state.held);
  state.held.clear();
  for (HeldRecord& entry : held) {
    const base::UnixMs time = entry.record.time_ms;
    if (confirmed_until && time > *confirmed_until && jumps(state, time)) {
      state.held.push_back(std::move(entry));
      continue;
    }
    batch_.erase(Family::kState, held_key(entry.record.source, entry.record.offset));
    const auto& body = std::get<ingest::EventBody>(entry.record.content);
    Outcome outcome = ingest::Rejection{
        ingest::RejectReason::kEventJump,
        "its time is more than event_jump_max ahead, and event_jump_held_max records were held"};
    if (confirmed_until) {
      state.merged_ms = std::max(state.merged_ms, time);
      if (const auto* impression = std::get_if<ingest::Impression>(&body)) {
        SF_ASSIGN(outcome, apply_impression(entry.record, *impression));
      } else {
        SF_ASSIGN(outcome, apply_action(entry.record, std::get<ingest::Action>(body)));
      }
    }
    settle(entry.record, outcome);
  }
  return {};
}

base::Result<void> Applier::expire_held(PartitionState& state, bool all) {
  const auto& steady = wiring_.steady != nullptr ? *wiring_.steady : steady_clock_;
  const base::SteadyTime now = steady.now();
  const std::chrono::milliseconds hold(config_.join.event_jump_hold_ms);
  std::erase_if(state.held, [&](const HeldRecord& entry) {
    if (!all && now - entry.since < hold) return false;
    batch_.erase(Family::kState, held_key(entry.record.source, entry.record.offset));
    settle(entry.record,
           ingest::Rejection{ingest::RejectReason::kEventJump,
                             "its time is more than event_jump_max ahead of the others, and no "
                             "records of other users confirmed it"});
    return true;
  });
  return {};
}

}  // namespace sirenfeed::features
