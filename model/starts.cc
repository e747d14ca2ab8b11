#include "model/starts.h"

#include <cmath>
#include <numbers>

#include "base/hash.h"

namespace sirenfeed::model {
namespace {

/// The stream of one (seed, name, key): 64 random bits an index.
class Stream {
 public:
  Stream(std::uint64_t seed, std::string_view name, std::uint64_t key)
      : state_(base::mix64(
            base::mix64(base::mix64(seed + base::kSplitMixStep) ^ base::xxh3_64(name)) ^ key)) {}

  /// 53 random bits, an integer in [0, 2^53).
  [[nodiscard]] double bits53(std::size_t index) const {
    return static_cast<double>(base::mix64(state_ + (index + 1) * base::kSplitMixStep) >> 11U);
  }

  /// In [0, 1).
  [[nodiscard]] double uniform(std::size_t index) const { return bits53(index) * 0x1p-53; }

  /// Box and Muller on the elements 2⌊i/2⌋ and 2⌊i/2⌋ + 1: cosine for even i, sine for odd.
  [[nodiscard]] double normal(std::size_t index) const {
    const std::size_t even = index & ~std::size_t{1};
    const double radius = std::sqrt(-2.0 * std::log((bits53(even) + 1.0) * 0x1p-53));
    const double turn = 2.0 * std::numbers::pi * uniform(even + 1);
    return radius * (index == even ? std::cos(turn) : std::sin(turn));
  }

 private:
  std::uint64_t state_;
};

template <class T>
void fill(const Start& start, std::uint64_t seed, std::string_view name, std::uint64_t key,
          std::span<T> out) {
  const Stream stream(seed, name, key);
  for (std::size_t i = 0; i < out.size(); ++i) {
    double value = start.scale;
    if (start.kind == StartKind::kUniform) value *= 2.0 * stream.uniform(i) - 1.0;
    if (start.kind == StartKind::kNormal) value *= stream.normal(i);
    // Through float also in double models: a start is the same number in every precision.
    out[i] = static_cast<T>(static_cast<float>(value));
  }
}

}  // namespace

void fill_start(const Start& start, std::uint64_t seed, std::string_view name, std::uint64_t key,
                std::span<float> out) {
  fill(start, seed, name, key, out);
}

void fill_start(const Start& start, std::uint64_t seed, std::string_view name, std::uint64_t key,
                std::span<double> out) {
  fill(start, seed, name, key, out);
}

}  // namespace sirenfeed::model
