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
//
// The others need not be in time order: the first next() reads and checks the whole file and sorts
// it, in memory or, above sort_bytes_max, through temporary files. Rows of one moment keep their
// order. An item's event comes just before its first exposure, with what the file of items (or the
// row) says of it; items that are never shown have none. impression_id is file:row, event_id
// file:row:type (mind: file:row:place in the slate:click); a click has the time of its exposure +
// click_delay_ms. Times are as in ingest/replay_time.h, without a zone in UTC.
//
// mind       behaviors.tsv of the MIND news data set: each row is a slate, ID-1 a click. Their
// order
//            in a row is shuffled, so that no position is sent. The history is left out: it has no
//            times, and a token of ours is an exposure with its time; a made-up one would teach
//            what nobody saw. Items: news.tsv; tags are category and subcategory, and there is no
//            time of publication.
// movielens  ratings.csv (movies.csv: title, genres as tags) or RecBole's NAME.inter (NAME.item).
//            Each row is an exposure; with a rating of at least click_min (4; label:float 1) it is
//            a click, whose value is the rating in ratings.csv.
// csv, jsonl any table by its mapping (ingest/replay_mapping.h). A row is an exposure, clicked
// where
//            click is at least click_min (1); with `type`, rows of other types than exposure_types
//            are actions of that type at their own time.
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "ingest/event_parser.h"
#include "ingest/replay_mapping.h"
#include "ingest/topic.h"

namespace sirenfeed::ingest {

enum class ReplayFormat { kKuairand, kEvents, kMind, kMovielens, kCsv, kJsonl };
[[nodiscard]] std::string_view replay_format_name(ReplayFormat format) noexcept;
[[nodiscard]] std::optional<ReplayFormat> replay_format_from_name(std::string_view name) noexcept;
/// All of them, for messages: "events, kuairand, …".
[[nodiscard]] std::string replay_format_names();

inline constexpr double kRatingClickMin = 4;
inline constexpr double kLabelClickMin = 1;

struct ReplayOptions {
  /// events: a line earlier than one before it is an error (true), or is handed out where it stands
  /// (false; the pipeline then treats it as late). A rebuild from the file is exact only with true.
  bool order_required = true;
  std::size_t line_bytes_max = 2U << 20U;  // a longer line is an error
  std::string stdin_name = "stdin";        // what "-" is called in ids and errors
  ParserConfig parser;                     // events: what a line may hold (never a future check)

  // what follows is of mind, movielens, csv and jsonl
  /// The file of items; nullopt: the one that lies beside the input under the data set's name for
  /// it, if it does; "none": none. csv and jsonl have no such name.
  std::optional<std::string> items_file;
  std::optional<double> click_min;           // nullopt: the format's
  base::UnixMs click_delay_ms = 1'000;       // within the join window
  std::size_t sort_bytes_max = 256U << 20U;  // of rows in memory while they are sorted
  ReplayMapping map;                         // csv, jsonl
  ReplayMapping items_map;                   // csv, jsonl: of the file of items
  char delimiter = ',';                      // csv: comma, semicolon or tab
  std::vector<std::string> exposure_types = {"impression", "exposure", "show"};  // csv, jsonl

  /// What the events depend on beside the files, as text: recognises the input of a resume.
  [[nodiscard]] std::string rules() const;
  /// kInvalidArgument names the field.
  [[nodiscard]] base::Result<void> validate() const;
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

/// The file of items that open_replay() will read beside `path`; nullopt: none.
[[nodiscard]] std::optional<std::string> replay_items_file(const std::string& path,
                                                           ReplayFormat format,
                                                           const ReplayOptions& options);

/// `path` may be "-" (standard input); the input may be gzipped, whatever its name. kNotFound names
/// the file, kDecode the line and what was expected.
[[nodiscard]] base::Result<std::unique_ptr<ReplayReader>> open_replay(const std::string& path,
                                                                      ReplayFormat format,
                                                                      const ReplayOptions& options);

}  // namespace sirenfeed::ingest
