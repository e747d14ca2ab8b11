#pragma once
#include <memory>

#include "app/data_use.h"
#include "app/settings.h"
#include "base/result.h"
#include "ingest/event_log.h"

namespace sirenfeed::app {

/// Kafka where --brokers is given (its topics must be there and co-partitioned), else the embedded
/// log of the data folder. `use`, of that folder, outlives the log.
[[nodiscard]] base::Result<std::unique_ptr<ingest::EventLog>> open_log(const Settings& settings,
                                                                       const DataUse& use);

}  // namespace sirenfeed::app
