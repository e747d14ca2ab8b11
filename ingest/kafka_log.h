#pragma once
// The log as topics of a Kafka cluster. Keeps the contract of event_log.h; librdkafka stays in
// kafka_*.cc.
#include <memory>

#include "base/result.h"
#include "ingest/event_log.h"
#include "ingest/kafka_config.h"

namespace sirenfeed::ingest {

/// Threads: any; every reader and writer is a client with threads of its own (a writer's
/// on_delivered runs on one of them). Topics are never created here: see topics_admin.h.
class KafkaLog final : public EventLog {
 public:
  /// kUnavailable, naming the address and the wait, when no broker answered; kInvalidArgument for a
  /// property that librdkafka does not take.
  static base::Result<std::unique_ptr<EventLog>> connect(const KafkaConfig& config);
  ~KafkaLog() override;

  base::Result<Partition> partitions(Topic topic) override;
  base::Result<Bounds> bounds(TopicPartition source) override;
  void stop_waiting() override;
  /// With a group: a member (cooperative-sticky) of the group on topic impressions alone.
  base::Result<std::unique_ptr<LogReader>> open_reader(ReaderOptions options) override;
  /// acks=all, idempotent, without a time-out: a lost broker delays delivery, for ever if need be.
  base::Result<std::unique_ptr<LogWriter>> open_writer(std::string name) override;

  struct Impl;

 private:
  explicit KafkaLog(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace sirenfeed::ingest
