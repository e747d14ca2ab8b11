#include "ingest/kafka_rejoin.h"

#include <gtest/gtest.h>

namespace sirenfeed::ingest {
namespace {

using namespace std::chrono_literals;

constexpr auto kSession = 45'000ms;
const KafkaRejoin::Time kStart{std::chrono::hours(1)};

TEST(KafkaRejoin, WhoWasAwayForLongerThanItsSessionJoinsAgain) {
  KafkaRejoin rejoin(kSession);
  rejoin.assigned();
  rejoin.taken(/*lost=*/true);
  EXPECT_TRUE(rejoin.fenced(kStart));
}

TEST(KafkaRejoin, WhoWasThereIsFencedByAnotherProcess) {
  KafkaRejoin rejoin(kSession);
  rejoin.assigned();
  rejoin.taken(/*lost=*/false);  // a rebalance
  EXPECT_FALSE(rejoin.fenced(kStart));
  rejoin.taken(/*lost=*/true);
  rejoin.assigned();
  EXPECT_FALSE(rejoin.fenced(kStart));
}

TEST(KafkaRejoin, TwoProcessesUnderOneNameDoNotFenceEachOtherForEver) {
  KafkaRejoin first(kSession), second(kSession);
  first.taken(/*lost=*/true);  // the second took its name while it was away
  ASSERT_TRUE(first.fenced(kStart));
  EXPECT_FALSE(second.fenced(kStart + 1s));
  // And when the second is started again at once, or both were away together.
  first.assigned();
  first.taken(/*lost=*/true);
  EXPECT_FALSE(first.fenced(kStart + kSession - 1ms));
}

TEST(KafkaRejoin, ALaterAbsenceIsOneOfItsOwn) {
  KafkaRejoin rejoin(kSession);
  rejoin.taken(/*lost=*/true);
  ASSERT_TRUE(rejoin.fenced(kStart));
  rejoin.assigned();
  rejoin.taken(/*lost=*/true);
  EXPECT_TRUE(rejoin.fenced(kStart + kSession));
  rejoin.assigned();
  EXPECT_FALSE(rejoin.fenced(kStart + 2 * kSession)) << "it was there";
}

}  // namespace
}  // namespace sirenfeed::ingest
