#include "trainer/count_sketch.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "base/check.h"
#include "base/hash.h"
#include "trainer/byte_io.h"

namespace sirenfeed::trainer {

CountSketch::CountSketch(std::size_t cells, std::uint64_t seed)
    : cells_(cells), seed_(seed), counts_(cells * kRows) {
  SF_CHECK(cells == 0 || std::has_single_bit(cells));
}

std::size_t CountSketch::cell(std::size_t row, std::uint64_t key) const {
  const std::uint64_t hash = base::mix64(key ^ base::mix64(seed_ + row * base::kSplitMixStep));
  return row * cells_ + static_cast<std::size_t>(hash & (cells_ - 1));
}

std::uint32_t CountSketch::estimate(std::uint64_t key) const {
  if (cells_ == 0) return 0;
  std::uint32_t least = std::numeric_limits<std::uint8_t>::max();
  for (std::size_t row = 0; row < kRows; ++row) {
    least = std::min<std::uint32_t>(least, counts_[cell(row, key)]);
  }
  return least;
}

void CountSketch::add(std::uint64_t key) {
  if (cells_ == 0) return;
  const std::uint32_t least = estimate(key);
  if (least < std::numeric_limits<std::uint8_t>::max()) {
    // Only the cells that say so little: the others counted someone else.
    for (std::size_t row = 0; row < kRows; ++row) {
      std::uint8_t& count = counts_[cell(row, key)];
      if (count == least) count = static_cast<std::uint8_t>(least + 1);
    }
  }
  if (++additions_ * 4 < cells_) return;
  additions_ = 0;
  for (std::uint8_t& count : counts_) count = static_cast<std::uint8_t>(count / 2);
}

void CountSketch::append_to(std::string& bytes) const {
  put(bytes, additions_);
  put_vector(bytes, counts_);
}

base::Result<void> CountSketch::restore(std::string_view& bytes) {
  const std::size_t expected = counts_.size();
  SF_TRY(take(bytes, additions_, "admission counts"));
  SF_TRY(take_vector(bytes, counts_, "admission counts"));
  if (counts_.size() == expected) return {};
  return base::fail(base::ErrorCode::kCorrupt, "admission counts have {} cells, expected {}",
                    counts_.size(), expected);
}

}  // namespace sirenfeed::trainer
