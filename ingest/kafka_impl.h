#pragma once
#include <memory>
#include <string>

#include "ingest/kafka_client.h"
#include "ingest/kafka_log.h"

namespace sirenfeed::ingest {

struct KafkaLog::Impl {
  std::unique_ptr<KafkaMetadata> metadata;
};

base::Result<std::unique_ptr<LogReader>> make_kafka_reader(const KafkaConfig& config,
                                                           ReaderOptions options);
base::Result<std::unique_ptr<LogWriter>> make_kafka_writer(KafkaMetadata& metadata,
                                                           std::string name);

}  // namespace sirenfeed::ingest
