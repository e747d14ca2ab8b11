#pragma once
// Owners of librdkafka's C handles. Included by kafka_*.cc only.
#include <librdkafka/rdkafka.h>

#include <memory>

namespace sirenfeed::ingest {

struct KafkaDelete {
  void operator()(rd_kafka_t* client) const noexcept { rd_kafka_destroy(client); }
  void operator()(rd_kafka_conf_t* conf) const noexcept { rd_kafka_conf_destroy(conf); }
  void operator()(rd_kafka_topic_t* topic) const noexcept { rd_kafka_topic_destroy(topic); }
  void operator()(rd_kafka_message_t* message) const noexcept { rd_kafka_message_destroy(message); }
  void operator()(rd_kafka_error_t* error) const noexcept { rd_kafka_error_destroy(error); }
  void operator()(rd_kafka_queue_t* queue) const noexcept { rd_kafka_queue_destroy(queue); }
  void operator()(rd_kafka_event_t* event) const noexcept { rd_kafka_event_destroy(event); }
  void operator()(rd_kafka_topic_partition_list_t* list) const noexcept {
    rd_kafka_topic_partition_list_destroy(list);
  }
  void operator()(const rd_kafka_metadata_t* metadata) const noexcept {
    rd_kafka_metadata_destroy(metadata);
  }
  void operator()(rd_kafka_NewTopic_t* topic) const noexcept { rd_kafka_NewTopic_destroy(topic); }
  void operator()(rd_kafka_AdminOptions_t* options) const noexcept {
    rd_kafka_AdminOptions_destroy(options);
  }
};
template <class T>
using KafkaPtr = std::unique_ptr<T, KafkaDelete>;

using KafkaPartitions = KafkaPtr<rd_kafka_topic_partition_list_t>;
[[nodiscard]] inline KafkaPartitions make_partitions() {
  return KafkaPartitions(rd_kafka_topic_partition_list_new(8));
}

}  // namespace sirenfeed::ingest
