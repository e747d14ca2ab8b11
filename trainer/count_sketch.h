#pragma once
// How often keys were seen, in fixed memory: who gets a row is decided before it has one.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace sirenfeed::trainer {

/// A count-min sketch with conservative update: four rows of one-byte cells. An estimate is never
/// below the true count, but for two limits that keep it bounded: it stops at 255, and when the
/// additions reach a quarter of a row's cells all counts are halved, so that keys from long ago
/// do not fill it. Equal additions in equal order give equal cells. Threads: one.
class CountSketch {
 public:
  /// `cells`: of each row, a power of two; 0 counts nothing.
  CountSketch(std::size_t cells, std::uint64_t seed);

  void add(std::uint64_t key);
  [[nodiscard]] std::uint32_t estimate(std::uint64_t key) const;

  void append_to(std::string& bytes) const;
  /// kCorrupt for a sketch of another size.
  [[nodiscard]] base::Result<void> restore(std::string_view& bytes);

 private:
  static constexpr std::size_t kRows = 4;

  [[nodiscard]] std::size_t cell(std::size_t row, std::uint64_t key) const;

  std::size_t cells_;
  std::uint64_t seed_;
  std::uint64_t additions_ = 0;  // since the last halving
  std::vector<std::uint8_t> counts_;
};

}  // namespace sirenfeed::trainer
