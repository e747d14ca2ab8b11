// Any bytes as an event: the parser neither crashes nor accepts what it cannot write and read
// again.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "base/clock.h"
#include "ingest/dead_letter.h"
#include "ingest/event_json.h"
#include "ingest/event_parser.h"

using namespace sirenfeed;
using namespace sirenfeed::ingest;

namespace {

void check_event(EventParser& parser, const ParsedEvent& event) {
  const std::string& key = event_key(event.body);
  SF_CHECK(!key.empty() && key.size() <= ParserConfig{}.id_bytes_max);
  SF_CHECK(event_time_ms(event.body) >= ParserConfig{}.timestamp_min_ms);
  const std::string json = event_json(event.body);
  const auto again = parser.parse_event(event_topic(event.body), json, 0);
  SF_CHECK(again.has_value());
  SF_CHECK(again->unknown_fields == 0 && again->repeated_items == 0);
  SF_CHECK(event_json(again->body) == json);
}

void check_record(EventParser& parser, Topic topic, std::string_view text) {
  LogRecord record;
  record.source.topic = topic;
  record.log_time_ms = 1'650'000'000'000;
  record.key = "u";
  record.value = std::string(text);
  const InputRecord parsed = parser.parse(record, 1);
  SF_CHECK(parsed.payload == text);
  const auto* rejection = std::get_if<Rejection>(&parsed.content);
  if (rejection == nullptr) return;
  const DeadLetter letter = dead_letter_of(parsed, *rejection);
  const auto read = parse_dead_letter(dead_letter_json(letter));
  SF_CHECK(read.has_value());
  SF_CHECK(read->payload == letter.payload && read->rejection.detail == rejection->detail);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const base::EventClock clock;
  static EventParser parser(
      [] {
        ParserConfig config;
        config.check_future = false;
        return config;
      }(),
      clock);
  if (size == 0) return 0;
  // The first byte chooses the topic; anything else means that the event names it.
  constexpr std::string_view kChoices = "iusc";
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::size_t choice = kChoices.find(static_cast<char>(data[0]));
  if (choice == std::string_view::npos) {
    const auto event = parser.parse_tagged_event(text, 1'650'000'000'000);
    if (event) check_event(parser, *event);
    return 0;
  }
  constexpr Topic kTopics[] = {Topic::kItems, Topic::kUsers, Topic::kImpressions, Topic::kClicks};
  const auto event = parser.parse_event(kTopics[choice], text, 1'650'000'000'000);
  if (event) check_event(parser, *event);
  check_record(parser, kTopics[choice], text);
  return 0;
}
