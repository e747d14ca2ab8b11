#pragma once
// From bytes to events: the one place that knows what publishers may send. Strict JSON (simdjson),
// then every field's type, limits and meaning.
//
// Decisions beyond the event table of docs/FORMATS.md:
// - A JSON null is an absent field. Of a name that occurs twice in one object the last one counts.
// - Names (surface, type, author, tags, segment, …) obey the rules of ids: 1 to id_bytes_max bytes,
//   an integer is taken as its digits, no NUL character.
// - "topic" is a known field of every event (files and the API carry it) and must be the record's.
// - An item that an impression lists twice keeps its first place and is counted.
// - A takedown or an erasure without a timestamp takes the log's time, as a null value does.
// - Fractions of a millisecond are dropped. Times after the year 9999 are invalid.
// - Event times are checked against the clock only with clock = wall; with clock = event the state
//   holds records that jump (event_jump_max). published_at and expires_at may lie in the future.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <tl/expected.hpp>

#include "base/clock.h"
#include "base/result.h"
#include "ingest/event.h"
#include "ingest/event_log.h"
#include "ingest/event_sink.h"
#include "ingest/topic.h"

namespace sirenfeed::ingest {

struct ParserConfig {
  std::size_t message_bytes_max = 900'000;          // of one value
  std::size_t id_bytes_max = 128;                   // of an id or a name
  std::size_t items_max = 500;                      // in one impression
  std::size_t tags_max = 64;                        // in one item
  std::size_t numeric_max = 64;                     // fields in one item
  std::size_t blocked_max = 10'000;                 // authors, and tags, in one user's profile
  std::size_t text_bytes_max = 8'192;               // title, url, image_url
  base::UnixMs timestamp_min_ms = 100'000'000'000;  // 1973; below: probably seconds
  base::UnixMs future_max_ms = 10 * 60 * 1000;      // an event may be this far ahead of now
  bool check_future = true;                         // false with clock = event
  [[nodiscard]] base::Result<void> validate() const;
};

/// An event and what was left out of it.
struct ParsedEvent {
  EventBody body;
  std::uint32_t unknown_fields = 0;
  std::uint32_t repeated_items = 0;
};
using ParseResult = tl::expected<ParsedEvent, Rejection>;

/// Threads: one at a time (it reuses its buffers); make one a thread, that is cheap.
class EventParser {
 public:
  /// `clock` outlives the parser.
  EventParser(const ParserConfig& config, const base::Clock& clock);
  ~EventParser();
  EventParser(EventParser&&) noexcept;
  EventParser& operator=(EventParser&&) noexcept;

  /// Never fails: the content is an event or a Rejection. `partitions` is the number of partitions
  /// of the co-partitioned topics (unused for items). Takes the record's value as the payload.
  [[nodiscard]] InputRecord parse(LogRecord record, Partition partitions);

  /// One event without its record: a line of a file, an element of POST /v1/events. `arrival_ms`
  /// stands for the log's time.
  [[nodiscard]] ParseResult parse_event(Topic topic, std::string_view json,
                                        base::UnixMs arrival_ms);
  /// The same where the event names its topic itself: {"topic":"clicks",…}.
  [[nodiscard]] ParseResult parse_tagged_event(std::string_view json, base::UnixMs arrival_ms);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sirenfeed::ingest
