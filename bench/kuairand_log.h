#pragma once
// The recorded log that the state's benchmarks run over: SIRENFEED_KUAIRAND names the file, the
// default is the slice of tests/data.
#include <chrono>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/require.h"
#include "ingest/replay_log_reader.h"
#include "ingest/replay_reader.h"

namespace sirenfeed::bench {

inline ingest::ReplayLog kuairand_log() {
  const char* named = std::getenv("SIRENFEED_KUAIRAND");
  const std::string file =
      named != nullptr ? named : "tests/data/kuairand_pure/impressions_slice.csv.gz";
  return ingest::ReplayLog(require(ingest::open_replay(file, ingest::ReplayFormat::kKuairand, {})));
}

/// Its records in merge order.
inline std::vector<ingest::LogRecord> kuairand_records() {
  ingest::ReplayLog log = kuairand_log();
  const auto reader = require(log.open_reader({.name = "bench"}));
  for (const auto topic : {ingest::Topic::kItems, ingest::Topic::kUsers,
                           ingest::Topic::kImpressions, ingest::Topic::kClicks}) {
    require(reader->assign({topic, 0}, std::nullopt));
  }
  std::vector<ingest::LogRecord> records;
  for (;;) {
    ingest::PollBatch batch = require(reader->poll(std::chrono::milliseconds(0)));
    if (batch.records.empty()) return records;
    for (ingest::LogRecord& record : batch.records) records.push_back(std::move(record));
  }
}

}  // namespace sirenfeed::bench
