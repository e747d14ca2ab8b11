#pragma once
#include <memory>

#include "app/settings.h"
#include "base/result.h"
#include "ingest/event_log.h"

namespace sirenfeed::app {

/// Kafka where --brokers is given (its topics must be there and co-partitioned), else the embedded
/// log of the data folder.
[[nodiscard]] base::Result<std::unique_ptr<ingest::EventLog>> open_log(const Settings& settings);

}  // namespace sirenfeed::app
