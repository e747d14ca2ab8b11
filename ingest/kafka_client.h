#pragma once
// What every Kafka client of ours has in common: configuration, names, errors, metadata. Included
// by kafka_*.cc only.
#include <atomic>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "base/result.h"
#include "ingest/event_log.h"
#include "ingest/kafka_config.h"
#include "ingest/kafka_handles.h"

namespace sirenfeed::ingest {

enum class KafkaRole : std::uint8_t { kProducer, kConsumer };

/// A configuration with the settings common to all clients, then `settings` (ours, which nothing
/// overrides), then the user's properties. Names the property that librdkafka does not take.
base::Result<KafkaPtr<rd_kafka_conf_t>> make_kafka_conf(
    const KafkaConfig& config, std::string_view client_name,
    const std::map<std::string, std::string>& settings);
base::Result<KafkaPtr<rd_kafka_t>> make_kafka_client(KafkaRole role,
                                                     KafkaPtr<rd_kafka_conf_t> conf);

[[nodiscard]] std::string kafka_topic_name(const KafkaConfig& config, Topic topic);
[[nodiscard]] std::optional<Topic> topic_of_kafka_name(const KafkaConfig& config,
                                                       std::string_view name);

[[nodiscard]] base::ErrorCode code_of(rd_kafka_resp_err_t error) noexcept;
[[nodiscard]] tl::unexpected<base::Error> kafka_failure(rd_kafka_resp_err_t error,
                                                        std::string_view what);

/// A client for questions about the cluster. Threads: any.
class KafkaMetadata {
 public:
  /// Waits at most config.connect_wait_max for an answer of a broker.
  static base::Result<std::unique_ptr<KafkaMetadata>> connect(const KafkaConfig& config);

  [[nodiscard]] const KafkaConfig& config() const noexcept { return config_; }
  [[nodiscard]] rd_kafka_t* client() const noexcept { return client_.get(); }

  base::Result<Partition> partitions(Topic topic) SF_EXCLUDES(mutex_);
  /// As partitions(), but asks only once.
  base::Result<Partition> known_partitions(Topic topic) SF_EXCLUDES(mutex_);
  /// kNotFound unless the topic and the partition exist.
  base::Result<void> check(TopicPartition source) SF_EXCLUDES(mutex_);
  base::Result<EventLog::Bounds> bounds(TopicPartition source);
  /// Every topic that the cluster has: name, partitions, replicas.
  struct Described {
    std::string name;
    Partition partitions = 0;
    int replicas = 0;
  };
  base::Result<std::vector<Described>> all_topics();
  /// EventLog::stop_waiting.
  void stop_waiting() noexcept { stopping_ = true; }

 private:
  explicit KafkaMetadata(KafkaConfig config) : config_(std::move(config)) {}
  static void on_error(rd_kafka_t* client, int error, const char* reason, void* self) noexcept;
  base::Result<KafkaPtr<const rd_kafka_metadata_t>> ask(rd_kafka_topic_t* topic, bool all);
  rd_kafka_resp_err_t in_slices(
      const std::function<rd_kafka_resp_err_t(int wait_ms)>& question) const;
  void serve_callbacks() const noexcept { rd_kafka_poll(client_.get(), 0); }

  const KafkaConfig config_;
  std::atomic<bool> stopping_{false};
  base::Mutex mutex_;
  std::map<Topic, Partition> known_ SF_GUARDED_BY(mutex_);
  std::string last_error_ SF_GUARDED_BY(mutex_);
  KafkaPtr<rd_kafka_t> client_;  // last: dies first
};

}  // namespace sirenfeed::ingest
