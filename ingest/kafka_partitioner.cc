#include <librdkafka/rdkafka.h>

#include "ingest/topic.h"

namespace sirenfeed::ingest {

Partition partition_of(std::string_view key, Partition partitions) noexcept {
  return rd_kafka_msg_partitioner_murmur2(nullptr, key.data(), key.size(), partitions, nullptr,
                                          nullptr);
}

}  // namespace sirenfeed::ingest
