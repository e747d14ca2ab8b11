#pragma once
// Time is a parameter. Wall time and event time answer "when is it"; the steady clock measures
// time-outs and is never compared with them.
#include <atomic>
#include <chrono>
#include <cstdint>

namespace sirenfeed::base {

/// Unix milliseconds.
using UnixMs = std::int64_t;

inline constexpr UnixMs kMsPerSecond = 1000;
inline constexpr UnixMs kMsPerHour = 3'600'000;
inline constexpr UnixMs kMsPerDay = 86'400'000;

/// "Now" for requests, decay, freshness, expiry and the check for future times. Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;
  [[nodiscard]] virtual UnixMs now_ms() const = 0;
};

/// clock = wall.
class WallClock final : public Clock {
 public:
  [[nodiscard]] UnixMs now_ms() const override;
};

/// clock = event: the greatest event time applied. Also what tests use as a manual clock.
class EventClock final : public Clock {
 public:
  explicit EventClock(UnixMs start_ms = 0) : now_ms_(start_ms) {}
  [[nodiscard]] UnixMs now_ms() const override { return now_ms_.load(std::memory_order_acquire); }
  /// Moves forward to `time_ms`; never back.
  void advance_to(UnixMs time_ms) noexcept;

 private:
  std::atomic<UnixMs> now_ms_;
};

using SteadyTime = std::chrono::steady_clock::time_point;

/// Time-outs and idle periods; a test hands in its own. Thread-safe.
class SteadyClock {
 public:
  virtual ~SteadyClock() = default;
  [[nodiscard]] virtual SteadyTime now() const { return std::chrono::steady_clock::now(); }
};

}  // namespace sirenfeed::base
