#pragma once
// What the extended context features count of a key: exposures, clicks, long views, and the
// residual (clicks minus the chance that was expected of each exposure), fading with half-lives of
// 1 h, 1 d and 7 d. Times are read and late increments decayed as in decayed_counter.h.
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "base/clock.h"
#include "features/decayed_counter.h"
#include "features/encode.h"

namespace sirenfeed::features {

enum class ResidualHalf : std::uint8_t { kHour, kDay, kWeek };
inline constexpr std::size_t kResidualHalves = 3;
inline constexpr std::array<double, kResidualHalves> kResidualHalfMs = {3'600'000.0, 86'400'000.0,
                                                                        604'800'000.0};
inline constexpr std::size_t kResidualSums = kCounts + 1;  // N, C, V, R

/// What a counter holds as of one time: [sum][half-life], the residual last.
struct ResidualValues {
  std::array<std::array<double, kResidualHalves>, kResidualSums> value{};
  [[nodiscard]] double of(Count count, ResidualHalf half) const {
    return value[static_cast<std::size_t>(count)][static_cast<std::size_t>(half)];
  }
  [[nodiscard]] double residual(ResidualHalf half) const {
    return value[kCounts][static_cast<std::size_t>(half)];
  }
};

/// Real: as for DecayedCounter, double for item-side keys and float for those of one user.
template <class Real>
class ResidualCounter {
 public:
  [[nodiscard]] bool empty() const { return t_last_ == kNever; }
  [[nodiscard]] base::UnixMs last_ms() const { return t_last_; }

  /// One event: 1 to its count, `residual` to R.
  void add(base::UnixMs t, Count count, double residual) {
    if (t > t_last_) roll_to(t);
    const auto c = static_cast<std::size_t>(count);
    if (t == t_last_) {
      ++now_[c];
      now_residual_ += static_cast<Real>(residual);
      return;
    }
    const Factors factors = decay(t_last_ - t);
    for (std::size_t h = 0; h < kResidualHalves; ++h) {
      before_[c][h] += static_cast<Real>(factors[h]);
      before_[kCounts][h] += static_cast<Real>(residual * factors[h]);
    }
  }

  /// Strictly before `t`.
  [[nodiscard]] ResidualValues at(base::UnixMs t) const {
    ResidualValues values;
    if (empty()) return values;
    const bool later = t > t_last_;
    const Factors factors = later ? decay(t - t_last_) : Factors{1, 1, 1};
    for (std::size_t s = 0; s < kResidualSums; ++s) {
      for (std::size_t h = 0; h < kResidualHalves; ++h) {
        values.value[s][h] = (later ? sum(s, h) : static_cast<double>(before_[s][h])) * factors[h];
      }
    }
    return values;
  }

  /// residuals = t_last:zigzag · 3 × increment:varint · Real · mask:fixed16 · Real for each bit.
  void encode(Encoder& out) const {
    out.zigzag(t_last_);
    for (const std::uint32_t n : now_) out.varint(n);
    out.fixed(now_residual_);
    std::uint16_t mask = 0;
    for (std::size_t i = 0; i < kResidualSums * kResidualHalves; ++i) {
      if (flat(i) != 0) mask = static_cast<std::uint16_t>(mask | (1U << i));
    }
    out.fixed(mask);
    for (std::size_t i = 0; i < kResidualSums * kResidualHalves; ++i) {
      if (flat(i) != 0) out.fixed(flat(i));
    }
  }
  void decode(Decoder& in) {
    t_last_ = in.zigzag();
    for (std::uint32_t& n : now_) n = static_cast<std::uint32_t>(in.varint());
    now_residual_ = in.fixed<Real>();
    const auto mask = in.fixed<std::uint16_t>();
    for (std::size_t i = 0; i < kResidualSums * kResidualHalves; ++i) {
      if ((mask >> i & 1U) == 0) continue;
      before_[i / kResidualHalves][i % kResidualHalves] = in.fixed<Real>();
    }
  }

 private:
  using Factors = std::array<double, kResidualHalves>;
  static constexpr base::UnixMs kNever = INT64_MIN;

  [[nodiscard]] static Factors decay(base::UnixMs elapsed_ms) {
    Factors factors{};
    for (std::size_t h = 0; h < kResidualHalves; ++h) {
      factors[h] = std::exp2(-static_cast<double>(elapsed_ms) / kResidualHalfMs[h]);
    }
    return factors;
  }
  [[nodiscard]] Real flat(std::size_t i) const {
    return before_[i / kResidualHalves][i % kResidualHalves];
  }
  [[nodiscard]] double sum(std::size_t s, std::size_t h) const {
    const double now =
        s < kCounts ? static_cast<double>(now_[s]) : static_cast<double>(now_residual_);
    return static_cast<double>(before_[s][h]) + now;
  }
  void roll_to(base::UnixMs t) {
    if (!empty()) {
      const Factors factors = decay(t - t_last_);
      for (std::size_t s = 0; s < kResidualSums; ++s) {
        for (std::size_t h = 0; h < kResidualHalves; ++h) {
          before_[s][h] = static_cast<Real>(sum(s, h) * factors[h]);
        }
      }
      now_ = {};
      now_residual_ = 0;
    }
    t_last_ = t;
  }

  base::UnixMs t_last_ = kNever;
  std::array<std::uint32_t, kCounts> now_{};
  Real now_residual_ = 0;
  std::array<std::array<Real, kResidualHalves>, kResidualSums> before_{};
};

using ItemResiduals = ResidualCounter<double>;
using UserResiduals = ResidualCounter<float>;

}  // namespace sirenfeed::features
