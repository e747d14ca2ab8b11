#pragma once
// Pumps a recorded input into a log: `sirenfeed publish`. At full speed, or so that event time
// passes `speed` times as fast as real time. Resumable: a small file keeps how many records from
// the start are in the log and where they end; what was sent after it was written is found in the
// log and not sent again. Where the target cannot be read (HTTP) it is sent again, and is then a
// duplicate that the state recognises by its id.
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "ingest/event_log.h"
#include "ingest/replay_reader.h"

namespace sirenfeed::ingest {

struct PublishProgress {
  std::uint64_t records = 0;       // handed to the writer, those of earlier runs included
  std::uint64_t acknowledged = 0;  // durable, counted from the first record without a gap
  std::uint64_t bytes_read = 0;    // of the file
  std::uint64_t bytes_total = 0;   // 0: unknown
  base::UnixMs time_ms = 0;        // event time of the newest record
  std::uint64_t resumed = 0;       // of them, those that the resume file counted
  std::uint64_t found = 0;         // and those that lay in the log beyond
};

struct PublishTarget {
  LogWriter& writer;
  EventLog* log = nullptr;  // of the writer, to read what an earlier run left; null: not readable
};

struct PublisherConfig {
  Partition partitions = 1;                 // of users, impressions and clicks
  Partition item_partitions = 1;            // of items
  std::optional<double> speed;              // nullopt: as fast as the log takes it
  std::optional<std::string> resume_file;   // nullopt: from the beginning, not resumable
  std::string identity;                     // names input and target in the resume file
  std::size_t message_bytes_max = 900'000;  // larger: kTooLarge, naming the record
  /// Records in flight: as far as one topic can get ahead of another in a log that is read
  /// meanwhile (topics are acknowledged independently), so no more than full speed needs.
  std::size_t unacknowledged_max = 2'000;
  std::chrono::milliseconds report_every{200};       // calls of the progress callback
  std::chrono::milliseconds flush_wait_max{60'000};  // for the last acknowledgements
  [[nodiscard]] base::Result<void> validate() const;
};

/// Reads `replay` to its end and returns when everything is acknowledged. A stop leaves the resume
/// file with what was acknowledged (kClosed). The resume file is removed after success. A resume
/// file of another input or target, or of a log that has since become shorter, is refused
/// (kInvalidArgument). Where a run goes on from is logged.
base::Result<PublishProgress> publish(ReplayReader& replay, PublishTarget target,
                                      const PublisherConfig& config,
                                      const std::function<void(const PublishProgress&)>& progress,
                                      const std::stop_token& stop);

/// Size and xxh3_64 of the beginning and end of a file, as text: recognises the input of a resume.
[[nodiscard]] base::Result<std::string> file_fingerprint(const std::string& path);

}  // namespace sirenfeed::ingest
