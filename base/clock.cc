#include "base/clock.h"

namespace sirenfeed::base {

UnixMs WallClock::now_ms() const {
  using std::chrono::duration_cast, std::chrono::milliseconds, std::chrono::system_clock;
  return duration_cast<milliseconds>(system_clock::now().time_since_epoch()).count();
}

void EventClock::advance_to(UnixMs time_ms) noexcept {
  UnixMs current = now_ms_.load(std::memory_order_relaxed);
  while (current < time_ms &&
         !now_ms_.compare_exchange_weak(current, time_ms, std::memory_order_acq_rel)) {
  }
}

}  // namespace sirenfeed::base
