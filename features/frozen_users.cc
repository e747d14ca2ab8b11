#include "features/frozen_users.h"

namespace sirenfeed::features {

const UserState& FrozenUsers::of_day(const std::string& user_id, base::UnixMs time_ms,
                                     const UserState& now) {
  const base::UnixMs day = time_ms / base::kMsPerDay - (time_ms % base::kMsPerDay < 0 ? 1 : 0);
  const auto [found, first] = users_.try_emplace(user_id);
  Frozen& frozen = found->second;
  if (first || frozen.day != day) frozen = {day, now};
  return frozen.state;
}

}  // namespace sirenfeed::features
