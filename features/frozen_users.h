#pragma once
// Users as they stood at their first impression of a day, for a measure that is fair within a user:
// what happens in the day cannot tell one of its exposures from another.
#include <string>
#include <unordered_map>

#include "base/clock.h"
#include "features/user_state.h"

namespace sirenfeed::features {

/// Keeps a copy of each user that was asked for: for evaluations only. Threads: one.
class FrozenUsers {
 public:
  /// The user as of their first call with a time of this UTC day; `now` is copied at that call.
  const UserState& of_day(const std::string& user_id, base::UnixMs time_ms, const UserState& now);

 private:
  struct Frozen {
    base::UnixMs day = 0;
    UserState state;
  };
  std::unordered_map<std::string, Frozen> users_;
};

}  // namespace sirenfeed::features
