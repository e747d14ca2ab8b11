#include "trainer/background_task.h"

#include <gtest/gtest.h>

#include <atomic>

namespace sirenfeed::trainer {
namespace {

TEST(BackgroundTask, RunsOneJobAfterTheOtherAndGivesEachResultOnce) {
  BackgroundTask task;
  EXPECT_TRUE(task.idle());
  EXPECT_FALSE(task.take_result());
  for (int round = 0; round < 100; ++round) {
    int written = 0;
    task.start([&]() -> base::Result<void> {
      written = round;
      if (round % 2 == 1) return base::fail(base::ErrorCode::kStorage, "round {}", round);
      return {};
    });
    EXPECT_FALSE(task.idle());
    task.wait();
    EXPECT_FALSE(task.idle()) << "its result waits";
    const auto result = task.take_result();
    ASSERT_TRUE(result);
    EXPECT_EQ(result->has_value(), round % 2 == 0);
    EXPECT_EQ(written, round);
    EXPECT_FALSE(task.take_result());
    EXPECT_TRUE(task.idle());
  }
}

TEST(BackgroundTask, ItsEndWaitsForTheJob) {
  std::atomic<bool> done{false};
  {
    BackgroundTask task;
    task.start([&]() -> base::Result<void> {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      done = true;
      return {};
    });
  }
  EXPECT_TRUE(done);
  const BackgroundTask never_started;
  never_started.wait();
}

}  // namespace
}  // namespace sirenfeed::trainer
