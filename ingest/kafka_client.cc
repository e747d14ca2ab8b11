#include "ingest/kafka_client.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <thread>
#include <utility>

#include "base/log.h"

namespace sirenfeed::ingest {
namespace {

using base::ErrorCode;
using Steady = std::chrono::steady_clock;

constexpr std::size_t kReasonBytes = 512;
// A question that waits for an answer looks this often whether the process is being stopped.
constexpr std::chrono::milliseconds kSlice{2'000};
constexpr std::chrono::milliseconds kPause{20};

/// librdkafka's threads call this; syslog's levels.
void on_log(const rd_kafka_t* client, int level, const char* facility, const char* text) noexcept {
  // A property that we set knowingly is said to be experimental by every writer.
  const bool known = std::string_view(facility) == "CONFWARN" &&
                     std::string_view(text).find("gapless") != std::string_view::npos;
  const base::LogLevel to = known        ? base::LogLevel::kDebug
                            : level <= 4 ? base::LogLevel::kWarning
                            : level <= 6 ? base::LogLevel::kInfo
                                         : base::LogLevel::kDebug;
  try {
    base::log(to, "kafka {}: {}: {}", client == nullptr ? "" : rd_kafka_name(client), facility,
              text);
  } catch (...) {  // a log line is not worth the process
  }
}

base::Result<void> set(rd_kafka_conf_t* conf, const std::string& name, const std::string& value,
                       bool name_only) {
  std::array<char, kReasonBytes> reason{};
  if (rd_kafka_conf_set(conf, name.c_str(), value.c_str(), reason.data(), reason.size()) ==
      RD_KAFKA_CONF_OK) {
    return {};
  }
  // The reason quotes the value, which may be a secret that went to the wrong property.
  return base::fail(ErrorCode::kInvalidArgument, "Kafka property {}: {}", name,
                    name_only ? "unknown to librdkafka, or its value is not valid" : reason.data());
}

int wait_ms(std::chrono::milliseconds wait) { return static_cast<int>(wait.count()); }

}  // namespace

base::Result<KafkaPtr<rd_kafka_conf_t>> make_kafka_conf(
    const KafkaConfig& config, std::string_view client_name,
    const std::map<std::string, std::string>& settings) {
  KafkaPtr<rd_kafka_conf_t> conf(rd_kafka_conf_new());
  rd_kafka_conf_set_log_cb(conf.get(), on_log);
  const std::map<std::string, std::string> common = {
      {"bootstrap.servers", config.brokers},
      {"client.id",
       fmt::format("{}{}{}", config.client_id, client_name.empty() ? "" : "-", client_name)},
      {"allow.auto.create.topics", "false"},
      {"reconnect.backoff.max.ms", "1000"},
      {"socket.keepalive.enable", "true"},
  };
  for (const auto& [name, value] : common) SF_TRY(set(conf.get(), name, value, false));
  for (const auto& [name, value] : settings) SF_TRY(set(conf.get(), name, value, false));
  for (const auto& [name, value] : config.properties) SF_TRY(set(conf.get(), name, value, true));
  return conf;
}

base::Result<KafkaPtr<rd_kafka_t>> make_kafka_client(KafkaRole role,
                                                     KafkaPtr<rd_kafka_conf_t> conf) {
  std::array<char, kReasonBytes> reason{};
  const auto type = role == KafkaRole::kProducer ? RD_KAFKA_PRODUCER : RD_KAFKA_CONSUMER;
  KafkaPtr<rd_kafka_t> client(rd_kafka_new(type, conf.get(), reason.data(), reason.size()));
  if (!client) {
    return base::fail(ErrorCode::kInvalidArgument, "Kafka configuration: {}", reason.data());
  }
  (void)conf.release();  // the client's own now
  return client;
}

std::string kafka_topic_name(const KafkaConfig& config, Topic topic) {
  return config.topic_prefix + std::string(topic_name(topic));
}

std::optional<Topic> topic_of_kafka_name(const KafkaConfig& config, std::string_view name) {
  if (!name.starts_with(config.topic_prefix)) return std::nullopt;
  return topic_from_name(name.substr(config.topic_prefix.size()));
}

base::ErrorCode code_of(rd_kafka_resp_err_t error) noexcept {
  switch (error) {
    case RD_KAFKA_RESP_ERR__TRANSPORT:
    case RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN:
    case RD_KAFKA_RESP_ERR__TIMED_OUT:
    case RD_KAFKA_RESP_ERR__TIMED_OUT_QUEUE:
    case RD_KAFKA_RESP_ERR__RESOLVE:
    case RD_KAFKA_RESP_ERR__WAIT_COORD:
    case RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE:
    case RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION:
    case RD_KAFKA_RESP_ERR_COORDINATOR_NOT_AVAILABLE:
    case RD_KAFKA_RESP_ERR_COORDINATOR_LOAD_IN_PROGRESS:
    case RD_KAFKA_RESP_ERR_NOT_COORDINATOR:
    case RD_KAFKA_RESP_ERR_NETWORK_EXCEPTION:
    case RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT:
    case RD_KAFKA_RESP_ERR_BROKER_NOT_AVAILABLE:
    case RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS:
    case RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS_AFTER_APPEND:
      return ErrorCode::kUnavailable;
    case RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART:
    case RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC:
    case RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION:
      return ErrorCode::kNotFound;
    case RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE:
      return ErrorCode::kTooLarge;
    case RD_KAFKA_RESP_ERR_OFFSET_OUT_OF_RANGE:
    case RD_KAFKA_RESP_ERR__AUTO_OFFSET_RESET:
    case RD_KAFKA_RESP_ERR__NO_OFFSET:
      return ErrorCode::kCorrupt;
    case RD_KAFKA_RESP_ERR__PURGE_QUEUE:
    case RD_KAFKA_RESP_ERR__PURGE_INFLIGHT:
    case RD_KAFKA_RESP_ERR__DESTROY:
      return ErrorCode::kClosed;
    case RD_KAFKA_RESP_ERR__AUTHENTICATION:
    case RD_KAFKA_RESP_ERR__SSL:
    case RD_KAFKA_RESP_ERR_SASL_AUTHENTICATION_FAILED:
    case RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED:
    case RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED:
    case RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED:
    case RD_KAFKA_RESP_ERR_INVALID_RECORD:
      return ErrorCode::kInvalidArgument;
    default:
      return ErrorCode::kInternal;
  }
}

tl::unexpected<base::Error> kafka_failure(rd_kafka_resp_err_t error, std::string_view what) {
  return base::fail(code_of(error), "{}: {} ({})", what, rd_kafka_err2str(error),
                    rd_kafka_err2name(error));
}

// --- KafkaMetadata -------------------------------------------------------------------------------

base::Result<std::unique_ptr<KafkaMetadata>> KafkaMetadata::connect(const KafkaConfig& config) {
  SF_TRY(config.validate());
  std::unique_ptr<KafkaMetadata> metadata(new KafkaMetadata(config));
  SF_ASSIGN(auto conf, make_kafka_conf(config, "metadata", {}));
  rd_kafka_conf_set_opaque(conf.get(), metadata.get());
  rd_kafka_conf_set_error_cb(conf.get(), on_error);
  SF_ASSIGN(metadata->client_, make_kafka_client(KafkaRole::kProducer, std::move(conf)));
  SF_TRY(metadata->ask(nullptr, false));
  return metadata;
}

void KafkaMetadata::on_error(rd_kafka_t*, int error, const char* reason, void* self) noexcept {
  if (error == RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN) return;  // says less than the error before it
  auto* metadata = static_cast<KafkaMetadata*>(self);
  base::MutexLock lock(metadata->mutex_);
  metadata->last_error_ = reason;
}

rd_kafka_resp_err_t KafkaMetadata::in_slices(
    const std::function<rd_kafka_resp_err_t(int)>& question) const {
  const auto deadline = Steady::now() + config_.connect_wait_max;
  while (true) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Steady::now());
    const rd_kafka_resp_err_t error =
        question(wait_ms(std::clamp(left, std::chrono::milliseconds(1), kSlice)));
    const bool unanswered =
        error == RD_KAFKA_RESP_ERR__TIMED_OUT || error == RD_KAFKA_RESP_ERR__TRANSPORT;
    if (!unanswered || stopping_ || Steady::now() >= deadline) return error;
    std::this_thread::sleep_for(kPause);  // some failures come at once
  }
}

base::Result<KafkaPtr<const rd_kafka_metadata_t>> KafkaMetadata::ask(rd_kafka_topic_t* topic,
                                                                     bool all) {
  const rd_kafka_metadata_t* answer = nullptr;
  const rd_kafka_resp_err_t error = in_slices([&](int slice_ms) {
    return rd_kafka_metadata(client_.get(), all ? 1 : 0, topic, &answer, slice_ms);
  });
  serve_callbacks();
  if (error == RD_KAFKA_RESP_ERR_NO_ERROR) return KafkaPtr<const rd_kafka_metadata_t>(answer);
  std::string reason;
  {
    base::MutexLock lock(mutex_);
    reason = last_error_.empty() ? rd_kafka_err2str(error) : last_error_;
  }
  return base::fail(ErrorCode::kUnavailable, "no Kafka broker answered at {} within {} ms: {}",
                    config_.brokers, config_.connect_wait_max.count(), reason);
}

base::Result<Partition> KafkaMetadata::partitions(Topic topic) {
  const std::string name = kafka_topic_name(config_, topic);
  const KafkaPtr<rd_kafka_topic_t> handle(rd_kafka_topic_new(client_.get(), name.c_str(), nullptr));
  if (!handle) return kafka_failure(rd_kafka_last_error(), name);
  const auto deadline = Steady::now() + config_.connect_wait_max;
  while (true) {
    SF_ASSIGN(const auto answer, ask(handle.get(), false));
    const rd_kafka_resp_err_t error =
        answer->topic_cnt == 1 ? answer->topics[0].err : RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART;
    if (error == RD_KAFKA_RESP_ERR_NO_ERROR && answer->topics[0].partition_cnt > 0) {
      base::MutexLock lock(mutex_);
      return known_[topic] = answer->topics[0].partition_cnt;
    }
    if (code_of(error) == ErrorCode::kNotFound) {
      return base::fail(ErrorCode::kNotFound,
                        "Kafka has no topic {}: make the topics with `sirenfeed topics create`",
                        name);
    }
    // A topic that is being made, or whose leader is being elected, is there soon.
    const bool passes =
        error == RD_KAFKA_RESP_ERR_NO_ERROR || code_of(error) == ErrorCode::kUnavailable;
    if (!passes || Steady::now() > deadline) return kafka_failure(error, "topic " + name);
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
}

base::Result<Partition> KafkaMetadata::known_partitions(Topic topic) {
  {
    base::MutexLock lock(mutex_);
    const auto found = known_.find(topic);
    if (found != known_.end()) return found->second;
  }
  return partitions(topic);
}

base::Result<void> KafkaMetadata::check(TopicPartition source) {
  SF_ASSIGN(const Partition count, known_partitions(source.topic));
  if (source.partition >= 0 && source.partition < count) return {};
  return base::fail(ErrorCode::kNotFound, "{}/{} does not exist: the topic has {} partitions",
                    kafka_topic_name(config_, source.topic), source.partition, count);
}

base::Result<EventLog::Bounds> KafkaMetadata::bounds(TopicPartition source) {
  SF_TRY(check(source));
  const std::string name = kafka_topic_name(config_, source.topic);
  EventLog::Bounds bounds;
  const auto deadline = Steady::now() + config_.connect_wait_max;
  while (true) {
    const rd_kafka_resp_err_t error = in_slices([&](int slice_ms) {
      return rd_kafka_query_watermark_offsets(client_.get(), name.c_str(), source.partition,
                                              &bounds.first, &bounds.next, slice_ms);
    });
    serve_callbacks();
    if (error == RD_KAFKA_RESP_ERR_NO_ERROR) return bounds;
    // The partition exists (see above), but its leader, just made or just elected, is not yet
    // there.
    const bool passes = error == RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION ||
                        error == RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE ||
                        error == RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART;
    if (!passes || Steady::now() > deadline) {
      return kafka_failure(error, fmt::format("offsets of {}/{}", name, source.partition));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
}

base::Result<std::vector<KafkaMetadata::Described>> KafkaMetadata::all_topics() {
  SF_ASSIGN(const auto answer, ask(nullptr, true));
  std::vector<Described> topics;
  for (int i = 0; i < answer->topic_cnt; ++i) {
    const rd_kafka_metadata_topic_t& topic = answer->topics[i];
    topics.push_back({topic.topic, topic.partition_cnt,
                      topic.partition_cnt > 0 ? topic.partitions[0].replica_cnt : 0});
  }
  return topics;
}

}  // namespace sirenfeed::ingest
