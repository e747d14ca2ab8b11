// The part of topics_admin.h that speaks to Kafka.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <thread>
#include <utility>

#include "base/log.h"
#include "ingest/kafka_client.h"
#include "ingest/topics_admin.h"

namespace sirenfeed::ingest {
namespace {

using base::ErrorCode;

constexpr std::array kTopics = {Topic::kItems,       Topic::kUsers,  Topic::kRequests,
                                Topic::kImpressions, Topic::kClicks, Topic::kExamples,
                                Topic::kDeadLetters};

Partition wanted_partitions(const TopicsConfig& topics, Topic topic) {
  if (topic == Topic::kItems) return topics.items_partitions;
  return topic == Topic::kDeadLetters ? 1 : topics.partitions;
}

std::map<std::string, std::string> topic_settings(const TopicsConfig& topics, Topic topic) {
  std::map<std::string, std::string> settings = {
      {"max.message.bytes", std::to_string(topics.message_bytes_max)},
      // The merge, tombstones and replays go by the publisher's time.
      {"message.timestamp.type", "CreateTime"}};
  if (topic == Topic::kItems || topic == Topic::kUsers) {
    settings["cleanup.policy"] = "compact";
  } else {
    const auto ms = std::chrono::milliseconds(topics.retention).count();
    settings["cleanup.policy"] = "delete";
    settings["retention.ms"] = std::to_string(ms == 0 ? -1 : ms);
  }
  return settings;
}

base::Result<KafkaPtr<rd_kafka_NewTopic_t>> new_topic(const KafkaConfig& kafka,
                                                      const TopicsConfig& topics, Topic topic) {
  std::array<char, 512> reason{};
  const std::string name = kafka_topic_name(kafka, topic);
  KafkaPtr<rd_kafka_NewTopic_t> created(
      rd_kafka_NewTopic_new(name.c_str(), wanted_partitions(topics, topic),
                            topics.replication_factor, reason.data(), reason.size()));
  if (!created) return base::fail(ErrorCode::kInvalidArgument, "topic {}: {}", name, reason.data());
  for (const auto& [key, value] : topic_settings(topics, topic)) {
    const auto error = rd_kafka_NewTopic_set_config(created.get(), key.c_str(), value.c_str());
    if (error != RD_KAFKA_RESP_ERR_NO_ERROR) return kafka_failure(error, name + " " + key);
  }
  return created;
}

base::Result<std::vector<TopicDescription>> describe(KafkaMetadata& metadata) {
  SF_ASSIGN(const auto all, metadata.all_topics());
  std::vector<TopicDescription> ours;
  for (const Topic topic : kTopics) {
    TopicDescription description;
    description.topic = topic;
    description.name = kafka_topic_name(metadata.config(), topic);
    for (const auto& found : all) {
      if (found.name != description.name) continue;
      description.partitions = found.partitions;
      description.replication_factor = static_cast<std::int16_t>(found.replicas);
    }
    ours.push_back(std::move(description));
  }
  return ours;
}

/// Asks for the topics and returns the names of those that this call made.
base::Result<std::vector<std::string>> request(
    KafkaMetadata& metadata, const std::vector<KafkaPtr<rd_kafka_NewTopic_t>>& topics) {
  const int wait_ms = static_cast<int>(metadata.config().connect_wait_max.count());
  std::array<char, 512> reason{};
  rd_kafka_t* client = metadata.client();
  const KafkaPtr<rd_kafka_queue_t> queue(rd_kafka_queue_new(client));
  const KafkaPtr<rd_kafka_AdminOptions_t> options(
      rd_kafka_AdminOptions_new(client, RD_KAFKA_ADMIN_OP_CREATETOPICS));
  rd_kafka_AdminOptions_set_request_timeout(options.get(), wait_ms, reason.data(), reason.size());
  rd_kafka_AdminOptions_set_operation_timeout(options.get(), wait_ms, reason.data(), reason.size());
  std::vector<rd_kafka_NewTopic_t*> pointers;
  for (const auto& topic : topics) pointers.push_back(topic.get());
  rd_kafka_CreateTopics(client, pointers.data(), pointers.size(), options.get(), queue.get());
  const KafkaPtr<rd_kafka_event_t> event(rd_kafka_queue_poll(queue.get(), wait_ms + 1'000));
  if (!event) {
    return base::fail(ErrorCode::kUnavailable, "no answer to the request for topics in {} ms",
                      wait_ms);
  }
  if (rd_kafka_event_error(event.get()) != RD_KAFKA_RESP_ERR_NO_ERROR) {
    return base::fail(code_of(rd_kafka_event_error(event.get())), "make topics: {}",
                      rd_kafka_event_error_string(event.get()));
  }
  std::size_t count = 0;
  const rd_kafka_topic_result_t** results =
      rd_kafka_CreateTopics_result_topics(rd_kafka_event_CreateTopics_result(event.get()), &count);
  std::vector<std::string> made;
  for (std::size_t i = 0; i < count; ++i) {
    const rd_kafka_resp_err_t error = rd_kafka_topic_result_error(results[i]);
    const std::string name = rd_kafka_topic_result_name(results[i]);
    if (error == RD_KAFKA_RESP_ERR_NO_ERROR) made.push_back(name);
    if (error == RD_KAFKA_RESP_ERR_NO_ERROR || error == RD_KAFKA_RESP_ERR_TOPIC_ALREADY_EXISTS) {
      continue;
    }
    const char* text = rd_kafka_topic_result_error_string(results[i]);
    return base::fail(
        code_of(error) == ErrorCode::kInternal ? ErrorCode::kInvalidArgument : code_of(error),
        "topic {}: {}", name, text != nullptr ? text : rd_kafka_err2str(error));
  }
  return made;
}

bool exist(const std::vector<TopicDescription>& topics) {
  return std::ranges::all_of(topics, [](const auto& topic) { return topic.partitions > 0; });
}

}  // namespace

base::Result<std::vector<TopicDescription>> create_topics(const KafkaConfig& kafka,
                                                          const TopicsConfig& topics) {
  SF_TRY(topics.validate());
  SF_ASSIGN(const auto metadata, KafkaMetadata::connect(kafka));
  SF_ASSIGN(std::vector<TopicDescription> known, describe(*metadata));
  std::vector<KafkaPtr<rd_kafka_NewTopic_t>> missing;
  for (const TopicDescription& topic : known) {
    const Partition wanted = wanted_partitions(topics, topic.topic);
    if (topic.partitions == 0) {
      SF_ASSIGN(auto created, new_topic(kafka, topics, topic.topic));
      missing.push_back(std::move(created));
    } else if (topic.partitions != wanted) {
      base::log_warning("topic {} exists with {} partitions, not {}: left as it is", topic.name,
                        topic.partitions, wanted);
    }
  }
  if (missing.empty()) return known;
  SF_ASSIGN(const std::vector<std::string> made, request(*metadata, missing));
  const auto deadline = std::chrono::steady_clock::now() + kafka.connect_wait_max;
  do {
    SF_ASSIGN(known, describe(*metadata));
    if (exist(known)) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  } while (std::chrono::steady_clock::now() < deadline);
  if (!exist(known)) {
    return base::fail(ErrorCode::kUnavailable, "the topics were asked for but are not there yet");
  }
  for (TopicDescription& topic : known) {
    SF_TRY(metadata->partitions(topic.topic));  // waits for a leader
    topic.created = std::ranges::find(made, topic.name) != made.end();
  }
  return known;
}

base::Result<std::vector<TopicDescription>> describe_topics(const KafkaConfig& kafka) {
  SF_ASSIGN(const auto metadata, KafkaMetadata::connect(kafka));
  return describe(*metadata);
}

}  // namespace sirenfeed::ingest
