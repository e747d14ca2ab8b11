// A whole training step allocates nothing once it has seen its largest shapes. Counts every
// operator new of this executable.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>

#include "tests/unit/trainer/synthetic_examples.h"
#include "trainer/online_trainer.h"

namespace {
std::atomic<std::size_t> allocations{0};
}  // namespace

// Not inlined: the compiler would see free() meet what looks like the standard operator new.
[[gnu::noinline]] void* operator new(std::size_t size) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* memory = std::malloc(size == 0 ? 1 : size)) return memory;
  std::abort();
}
[[gnu::noinline]] void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  allocations.fetch_add(1, std::memory_order_relaxed);
  return std::malloc(size == 0 ? 1 : size);
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace sirenfeed::trainer {
namespace {

/// The fewest allocations that a round of batches made. Which worker meets the largest shapes when
/// is not ours to say, so that the quiet comes sooner or later; a step that allocates each time
/// never has a round without.
std::size_t fewest_allocations_of_a_round(std::size_t threads) {
  constexpr int kRoundsMax = 300;
  StepConfig config = testing::small_step();
  config.threads = threads;
  const auto trainer = *OnlineTrainer::create(testing::small_model(), config);
  const auto examples = testing::decode_all(testing::make_examples({.examples = 64}));
  std::vector<std::vector<const DecodedExample*>> batches(4);
  for (std::size_t i = 0; i < examples.size(); ++i) batches[i / 16].push_back(&examples[i]);
  std::size_t fewest = 0;
  for (int round = 0; round < kRoundsMax; ++round) {
    const std::size_t before = allocations.load();
    for (const auto& batch : batches) EXPECT_TRUE(trainer->learn(batch).learned);
    const std::size_t during = allocations.load() - before;
    if (round == 0) {
      EXPECT_GT(during, 0U);  // the counter counts
      fewest = during;
    }
    fewest = std::min(fewest, during);
    if (fewest == 0) break;
  }
  return fewest;
}

TEST(Allocation, ATrainingStepAllocatesNothingInTheSteadyState) {
  EXPECT_EQ(fewest_allocations_of_a_round(1), 0U);
  EXPECT_EQ(fewest_allocations_of_a_round(2), 0U);
}

}  // namespace
}  // namespace sirenfeed::trainer
