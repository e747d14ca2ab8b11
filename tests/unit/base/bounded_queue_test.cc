#include "base/bounded_queue.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace sirenfeed::base {
namespace {

TEST(BoundedQueue, GivesEntriesInTheOrderTheyCame) {
  BoundedQueue<int> queue({.entries_max = 8});
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(queue.push(i));
  for (int i = 0; i < 5; ++i) EXPECT_EQ(queue.pop(), i);
}

TEST(BoundedQueue, AFullQueueMakesTheProducerWaitUntilThereIsRoom) {
  BoundedQueue<int> queue({.entries_max = 1});
  ASSERT_TRUE(queue.push(1));
  std::atomic<bool> pushed = false;
  std::jthread producer([&] {
    EXPECT_TRUE(queue.push(2));
    pushed = true;
  });
  EXPECT_FALSE(pushed);
  EXPECT_EQ(queue.pop(), 1);
  EXPECT_EQ(queue.pop(), 2);
}

TEST(BoundedQueue, TheByteLimitHoldsButAnEmptyQueueTakesOneOversizeEntry) {
  BoundedQueue<int> queue({.entries_max = 8, .bytes_max = 10});
  ASSERT_TRUE(queue.push(1, 100));
  EXPECT_EQ(queue.bytes(), 100U);
  std::jthread consumer([&] { EXPECT_EQ(queue.pop(), 1); });
  EXPECT_TRUE(queue.push(2, 5));
  EXPECT_EQ(queue.pop(), 2);
}

TEST(BoundedQueue, ClosingDrainsWhatIsThereAndRefusesMore) {
  BoundedQueue<int> queue({.entries_max = 8});
  ASSERT_TRUE(queue.push(1));
  queue.close();
  queue.close();
  EXPECT_FALSE(queue.push(2));
  EXPECT_EQ(queue.pop(), 1);
  EXPECT_EQ(queue.pop(), std::nullopt);
}

TEST(BoundedQueue, WaitingEndsWithTheTimeout) {
  BoundedQueue<int> queue({.entries_max = 8});
  EXPECT_EQ(queue.pop_for(std::chrono::milliseconds(1)), std::nullopt);
}

}  // namespace
}  // namespace sirenfeed::base
