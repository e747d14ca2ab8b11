#include "ingest/topic.h"

#include <gtest/gtest.h>

namespace sirenfeed::ingest {
namespace {

TEST(Topic, NamesAndTopicsMapBothWays) {
  for (const Topic topic : {Topic::kItems, Topic::kUsers, Topic::kRequests, Topic::kImpressions,
                            Topic::kClicks, Topic::kExamples, Topic::kDeadLetters}) {
    EXPECT_EQ(topic_from_name(topic_name(topic)), topic);
  }
  EXPECT_EQ(topic_from_name("no such topic"), std::nullopt);
}

// Values of org.apache.kafka.common.utils.Utils.murmur2, from Kafka's own UtilsTest.
TEST(PartitionOf, EqualsKafkasJavaClients) {
  constexpr Partition kMany = 0x7fffffff;
  EXPECT_EQ(partition_of("21", kMany), (-973932308 & 0x7fffffff) % kMany);
  EXPECT_EQ(partition_of("foobar", kMany), (-790332482 & 0x7fffffff) % kMany);
  EXPECT_EQ(partition_of("a-little-bit-long-string", kMany), (-985981536 & 0x7fffffff) % kMany);
}

}  // namespace
}  // namespace sirenfeed::ingest
