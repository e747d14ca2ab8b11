#pragma once
// Counts that fade with half-lives of 1 h, 1 d and 30 d, readable at any time as "strictly before".
//
// An entry is (values before t_last, t_last, increments at t_last): a read at t_last leaves the
// increments out, a later one decays their sum. A late increment is decayed to t_last. A read
// before t_last cannot tell what came between and takes the values before t_last as they are.
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "base/clock.h"
#include "features/encode.h"

namespace sirenfeed::features {

enum class Count : std::uint8_t { kShown, kClicks, kLongViews };
inline constexpr std::size_t kCounts = 3;

enum class HalfLife : std::uint8_t { kHour, kDay, kMonth };
inline constexpr std::size_t kHalfLives = 3;
inline constexpr std::array<double, kHalfLives> kHalfLifeMs = {3'600'000.0, 86'400'000.0,
                                                               2'592'000'000.0};

/// What a counter holds as of one time: [count][half-life].
struct CountValues {
  std::array<std::array<double, kHalfLives>, kCounts> value{};
  [[nodiscard]] double of(Count count, HalfLife half) const {
    return value[static_cast<std::size_t>(count)][static_cast<std::size_t>(half)];
  }
  [[nodiscard]] bool never_seen() const {
    for (const auto& halves : value) {
      if (halves[kHalfLives - 1] != 0) return false;
    }
    return true;
  }
};

[[nodiscard]] inline std::array<double, kHalfLives> decay_factors(base::UnixMs elapsed_ms) {
  std::array<double, kHalfLives> factors{};
  for (std::size_t h = 0; h < kHalfLives; ++h) {
    factors[h] = std::exp2(-static_cast<double>(elapsed_ms) / kHalfLifeMs[h]);
  }
  return factors;
}

/// Real: double for item-side keys, whose sums grow; float for those of one user. What is in memory
/// is what is stored, bit for bit.
template <class Real>
class DecayedCounter {
 public:
  [[nodiscard]] bool empty() const { return t_last_ == kNever; }
  [[nodiscard]] base::UnixMs last_ms() const { return t_last_; }

  void add(base::UnixMs t, Count count, std::uint32_t n = 1) {
    if (t > t_last_) roll_to(t);
    const auto c = static_cast<std::size_t>(count);
    if (t == t_last_) {
      now_[c] += n;
      return;
    }
    const auto factors = decay_factors(t_last_ - t);
    for (std::size_t h = 0; h < kHalfLives; ++h) {
      before_[c][h] = static_cast<Real>(before_[c][h] + n * factors[h]);
    }
  }

  /// Strictly before `t`.
  [[nodiscard]] CountValues at(base::UnixMs t) const {
    CountValues values;
    if (empty()) return values;
    if (t <= t_last_) {
      for (std::size_t c = 0; c < kCounts; ++c) {
        for (std::size_t h = 0; h < kHalfLives; ++h) values.value[c][h] = before_[c][h];
      }
      return values;
    }
    const auto factors = decay_factors(t - t_last_);
    for (std::size_t c = 0; c < kCounts; ++c) {
      for (std::size_t h = 0; h < kHalfLives; ++h) {
        values.value[c][h] = sum(c, h) * factors[h];
      }
    }
    return values;
  }

  /// Grows with the decayed count whatever the time of comparison: log2 of the value at the epoch.
  [[nodiscard]] double rank_key(Count count, HalfLife half) const {
    const auto c = static_cast<std::size_t>(count);
    const auto h = static_cast<std::size_t>(half);
    return std::log2(sum(c, h)) + static_cast<double>(t_last_) / kHalfLifeMs[h];
  }

  /// counter = t_last:zigzag · 3 × increment:varint · mask:fixed16 · Real for each bit of mask.
  void encode(Encoder& out) const {
    out.zigzag(t_last_);
    for (const std::uint32_t n : now_) out.varint(n);
    std::uint16_t mask = 0;
    for (std::size_t i = 0; i < kCounts * kHalfLives; ++i) {
      if (flat(i) != 0) mask = static_cast<std::uint16_t>(mask | (1U << i));
    }
    out.fixed(mask);
    for (std::size_t i = 0; i < kCounts * kHalfLives; ++i) {
      if (flat(i) != 0) out.fixed(flat(i));
    }
  }
  void decode(Decoder& in) {
    t_last_ = in.zigzag();
    for (std::uint32_t& n : now_) n = static_cast<std::uint32_t>(in.varint());
    const auto mask = in.fixed<std::uint16_t>();
    for (std::size_t i = 0; i < kCounts * kHalfLives; ++i) {
      if ((mask >> i & 1U) != 0) before_[i / kHalfLives][i % kHalfLives] = in.fixed<Real>();
    }
  }

 private:
  static constexpr base::UnixMs kNever = INT64_MIN;

  [[nodiscard]] Real flat(std::size_t i) const { return before_[i / kHalfLives][i % kHalfLives]; }
  [[nodiscard]] double sum(std::size_t c, std::size_t h) const {
    return static_cast<double>(before_[c][h]) + static_cast<double>(now_[c]);
  }
  void roll_to(base::UnixMs t) {
    if (!empty()) {
      const auto factors = decay_factors(t - t_last_);
      for (std::size_t c = 0; c < kCounts; ++c) {
        for (std::size_t h = 0; h < kHalfLives; ++h) {
          before_[c][h] = static_cast<Real>(sum(c, h) * factors[h]);
        }
      }
      now_ = {};
    }
    t_last_ = t;
  }

  base::UnixMs t_last_ = kNever;
  std::array<std::uint32_t, kCounts> now_{};
  std::array<std::array<Real, kHalfLives>, kCounts> before_{};
};

using ItemCounter = DecayedCounter<double>;
using UserCounter = DecayedCounter<float>;

}  // namespace sirenfeed::features
