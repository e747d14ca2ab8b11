#pragma once
// Recorded input as a stream of events in merge order: (timestamp, topic, order of the input).
// Errors name file and line: "impressions.csv.gz:17: time_ms: expected an integer, got 'abc'".
//
// kuairand  the CSV of KuaiRand-Pure. Each row is an impression of its own: exposure at time_ms,
//           click at time_ms + 1000, long_view, like and hide (is_hate) at time_ms +
//           min(play_time_ms, 600000). tab is the surface, duration_ms a numeric field, tags are
//           split at commas; the item's event comes just before its first exposure, with that
//           timestamp. impression_id is file:row and event_id file:row:task, where file is the base
//           name without .gz and .csv and row counts data rows from 1.
// events    NDJSON in time order, each line an event with its "topic".
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"
#include "ingest/event_parser.h"
#include "ingest/topic.h"

namespace sirenfeed::ingest {

enum class ReplayFormat { kKuairand, kEvents };
[[nodiscard]] std::string_view replay_format_name(ReplayFormat format) noexcept;
[[nodiscard]] std::optional<ReplayFormat> replay_format_from_name(std::string_view name) noexcept;

struct ReplayOptions {
  /// events: a line earlier than one before it is an error (true), or is handed out where it stands
  /// (false; the pipeline then treats it as late). A rebuild from the file is exact only with true.
  bool order_required = true;
  std::size_t line_bytes_max = 2U << 20U;  // a longer line is an error
  std::string stdin_name = "stdin";        // what "-" is called in ids and errors
  ParserConfig parser;                     // events: what a line may hold (never a future check)
};

struct ReplayRecord {
  Topic topic = Topic::kItems;
  std::string key;
  std::optional<std::string> value;  // the event's JSON; null: takedown or erasure
  base::UnixMs time_ms = 0;
};

/// Threads: one.
class ReplayReader {
 public:
  virtual ~ReplayReader() = default;
  /// nullopt: the end. After an error the reader is done.
  virtual base::Result<std::optional<ReplayRecord>> next() = 0;
  /// Progress in bytes of the file as it lies on disk; total 0: unknown (standard input).
  [[nodiscard]] virtual std::uint64_t bytes_read() const = 0;
  [[nodiscard]] virtual std::uint64_t bytes_total() const = 0;
};

/// `path` may be "-" (standard input); the input may be gzipped, whatever its name. kNotFound names
/// the file, kDecode the line and what was expected.
[[nodiscard]] base::Result<std::unique_ptr<ReplayReader>> open_replay(const std::string& path,
                                                                      ReplayFormat format,
                                                                      const ReplayOptions& options);

}  // namespace sirenfeed::ingest
