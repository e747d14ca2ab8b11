#include "trainer/example_order.h"

#include <gtest/gtest.h>

namespace sirenfeed::trainer {
namespace {

using Verdict = ExampleOrder::Verdict;

Verdict check(ExampleOrder& order, std::uint64_t epoch, std::uint64_t sequence) {
  std::string reason;
  const Verdict verdict = order.check(epoch, sequence, reason);
  EXPECT_EQ(verdict == Verdict::kStop, !reason.empty());
  return verdict;
}

TEST(ExampleOrder, AcceptsExactlyTheNextOne) {
  ExampleOrder order(PartitionPosition{.next_offset = 9, .epoch = 2, .sequence = 5});
  EXPECT_EQ(check(order, 2, 5), Verdict::kDuplicate);
  EXPECT_EQ(check(order, 2, 1), Verdict::kDuplicate);
  EXPECT_EQ(check(order, 2, 7), Verdict::kStop);
  EXPECT_EQ(check(order, 2, 6), Verdict::kAccept);
  EXPECT_EQ(check(order, 2, 6), Verdict::kDuplicate);
  EXPECT_EQ(check(order, 2, 7), Verdict::kAccept);
}

TEST(ExampleOrder, ATrainerWithoutACheckpointBeginsWithWhateverIsRetained) {
  ExampleOrder order(std::nullopt);
  EXPECT_EQ(check(order, 4, 1'000), Verdict::kAccept);
  EXPECT_EQ(check(order, 4, 1'001), Verdict::kAccept);
}

TEST(ExampleOrder, ANewEpochBeginsAtItsFirstAndAnOldOneIsRefused) {
  ExampleOrder order(PartitionPosition{.next_offset = 9, .epoch = 2, .sequence = 5});
  EXPECT_EQ(check(order, 1, 6), Verdict::kStop);
  EXPECT_EQ(check(order, 3, 2), Verdict::kStop);
  EXPECT_EQ(check(order, 4, 1), Verdict::kStop);
  EXPECT_EQ(check(order, 3, 1), Verdict::kAccept);
  EXPECT_EQ(check(order, 2, 6), Verdict::kStop);
  EXPECT_EQ(check(order, 3, 2), Verdict::kAccept);
}

TEST(ExampleOrder, AnUndecodableRecordMayStandForOneNumber) {
  ExampleOrder order(PartitionPosition{.next_offset = 9, .epoch = 2, .sequence = 5});
  order.note_undecodable();
  EXPECT_EQ(check(order, 2, 8), Verdict::kStop);
  EXPECT_EQ(check(order, 2, 7), Verdict::kAccept);
  EXPECT_EQ(check(order, 2, 9), Verdict::kStop);
  order.note_undecodable();
  EXPECT_EQ(check(order, 2, 8), Verdict::kAccept);  // it stood for none
}

}  // namespace
}  // namespace sirenfeed::trainer
