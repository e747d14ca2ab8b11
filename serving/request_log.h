#pragma once
// What was shown, with its features, model version and propensities, into topic requests. The
// answer does not wait for it.
#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "ingest/event_log.h"
#include "serving/probe.h"

namespace sirenfeed::serving {

struct RequestRecord;  // request_record.h

struct RequestLogConfig {
  std::size_t queue_entries_max = 1024;  // more are dropped and counted
  std::size_t queue_bytes_max = 16U << 20U;
};

/// Owns one thread that writes JSON and appends. Threads: any may call write(). A full queue drops
/// the record and counts it: a feed must not wait for a log (the impression, which is learned,
/// comes by its own event).
class RequestLog {
 public:
  /// The user was erased since the record was made: it is not written. Null: never.
  using Erased = std::function<bool(const RequestRecord&)>;

  RequestLog(const RequestLogConfig& config, ingest::LogWriter& writer,
             ingest::Partition partitions, ServingProbe& probe, Erased erased = {});
  ~RequestLog();
  RequestLog(const RequestLog&) = delete;
  RequestLog& operator=(const RequestLog&) = delete;
  void write(RequestRecord record);
  /// Takes what is queued of a user out, once the erasure is in force: afterwards none of it is
  /// written. Waits while one is being handed to the log. How many were taken out.
  std::size_t forget(const std::string& user_id);
  /// Writes what is queued, then ends the thread. Idempotent.
  void stop();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sirenfeed::serving
