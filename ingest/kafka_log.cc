#include "ingest/kafka_log.h"

#include <utility>

#include "base/log.h"
#include "ingest/kafka_impl.h"

namespace sirenfeed::ingest {

KafkaLog::KafkaLog(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
KafkaLog::~KafkaLog() = default;

base::Result<std::unique_ptr<EventLog>> KafkaLog::connect(const KafkaConfig& config) {
  auto impl = std::make_unique<Impl>();
  SF_ASSIGN(impl->metadata, KafkaMetadata::connect(config));
  base::log_info("connected to Kafka at {}{}{}", config.brokers,
                 config.properties.empty() ? "" : " with ", masked_properties(config));
  return std::unique_ptr<EventLog>(new KafkaLog(std::move(impl)));
}

base::Result<Partition> KafkaLog::partitions(Topic topic) {
  return impl_->metadata->partitions(topic);
}

base::Result<EventLog::Bounds> KafkaLog::bounds(TopicPartition source) {
  return impl_->metadata->bounds(source);
}

void KafkaLog::stop_waiting() { impl_->metadata->stop_waiting(); }

base::Result<std::unique_ptr<LogReader>> KafkaLog::open_reader(ReaderOptions options) {
  return make_kafka_reader(impl_->metadata->config(), std::move(options));
}

base::Result<std::unique_ptr<LogWriter>> KafkaLog::open_writer(std::string name) {
  return make_kafka_writer(*impl_->metadata, std::move(name));
}

}  // namespace sirenfeed::ingest
