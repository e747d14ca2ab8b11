#include "trainer/shuffle_times.h"

#include <random>
#include <utility>

namespace sirenfeed::trainer {

void shuffle_history_times(DecodedExample& example, std::uint64_t seed) {
  const auto offset = static_cast<std::uint64_t>(example.identity.impression_offset);
  const auto partition = static_cast<std::uint64_t>(example.identity.impression_partition);
  std::mt19937_64 random(seed * 0x9E3779B97F4A7C15U ^ (offset << 16U) ^ partition);
  auto& history = example.slate.history;
  // Fisher and Yates; std::shuffle's draws differ between libraries.
  for (std::size_t left = history.size(); left > 1; --left) {
    std::swap(history[left - 1].time_ms, history[random() % left].time_ms);
  }
}

}  // namespace sirenfeed::trainer
