#pragma once
// librdkafka's in-process mock cluster: for tests of behaviour and errors without a broker.
#include <gtest/gtest.h>
#include <librdkafka/rdkafka.h>
#include <librdkafka/rdkafka_mock.h>

#include <array>
#include <memory>
#include <string>

#include "ingest/kafka_config.h"
#include "ingest/topic.h"

namespace sirenfeed::test_support {

/// One mock broker with all topics: `partitions` each, items and dead-letters one.
class MockKafka {
 public:
  /// ThreadSanitizer does not know the C11 threads that librdkafka starts, and crashes in them.
#if defined(__SANITIZE_THREAD__)
  static constexpr bool kUsable = false;
#else
  static constexpr bool kUsable = true;
#endif

  explicit MockKafka(ingest::Partition partitions) {
    std::array<char, 512> reason{};
    rd_kafka_conf_t* conf = rd_kafka_conf_new();
    rd_kafka_conf_set(conf, "test.mock.num.brokers", "1", reason.data(), reason.size());
    rd_kafka_conf_set(conf, "log_level", "3", reason.data(), reason.size());
    owner_ = rd_kafka_new(RD_KAFKA_PRODUCER, conf, reason.data(), reason.size());
    EXPECT_NE(owner_, nullptr) << reason.data();
    cluster_ = rd_kafka_handle_mock_cluster(owner_);
    for (const ingest::Topic topic :
         {ingest::Topic::kItems, ingest::Topic::kUsers, ingest::Topic::kRequests,
          ingest::Topic::kImpressions, ingest::Topic::kClicks, ingest::Topic::kExamples,
          ingest::Topic::kDeadLetters}) {
      const bool single = topic == ingest::Topic::kItems || topic == ingest::Topic::kDeadLetters;
      rd_kafka_mock_topic_create(cluster_, std::string(ingest::topic_name(topic)).c_str(),
                                 single ? 1 : partitions, 1);
    }
  }
  ~MockKafka() { rd_kafka_destroy(owner_); }
  MockKafka(const MockKafka&) = delete;
  MockKafka& operator=(const MockKafka&) = delete;

  [[nodiscard]] rd_kafka_mock_cluster_t* cluster() const { return cluster_; }
  [[nodiscard]] ingest::KafkaConfig config() const {
    ingest::KafkaConfig config;
    config.brokers = rd_kafka_mock_cluster_bootstraps(cluster_);
    return config;
  }

 private:
  rd_kafka_t* owner_ = nullptr;
  rd_kafka_mock_cluster_t* cluster_ = nullptr;
};

}  // namespace sirenfeed::test_support
