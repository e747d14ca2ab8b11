#include "app/open_log.h"

#include "base/log.h"
#include "ingest/embedded_log.h"
#include "ingest/kafka_log.h"

namespace sirenfeed::app {

base::Result<std::unique_ptr<ingest::EventLog>> open_log(const Settings& settings,
                                                         const DataUse& /*use*/) {
  if (settings.brokers.empty()) return ingest::EmbeddedLog::open(settings.embedded);
  base::log_info("connecting to Kafka at {}{}", settings.brokers,
                 ingest::masked_properties(settings.kafka));
  SF_ASSIGN(auto log, ingest::KafkaLog::connect(settings.kafka));
  SF_TRY(ingest::check_copartitioned(*log));
  return log;
}

}  // namespace sirenfeed::app
