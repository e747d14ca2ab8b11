#pragma once
// Events as publishers write them: the inverse of EventParser. Absent fields are left out.
#include <string>
#include <string_view>

#include "base/clock.h"
#include "ingest/event.h"
#include "ingest/topic.h"

namespace sirenfeed::ingest {

enum class JsonForm {
  kRecord,  // the value of a record in its topic
  kTagged,  // with "topic" in front: a line of a file, an event of POST /v1/events
};

/// Appends one JSON object, without a line end. Numbers are finite (SF_CHECK), strings are UTF-8.
void append_event_json(const EventBody& body, JsonForm form, std::string& out);
[[nodiscard]] std::string event_json(const EventBody& body, JsonForm form = JsonForm::kRecord);

/// The topic that an event belongs in, and its record's key (user_id, or item_id for items).
[[nodiscard]] Topic event_topic(const EventBody& body) noexcept;
[[nodiscard]] const std::string& event_key(const EventBody& body) noexcept;

/// Appends `text` as a JSON string with its quotes. `text` is UTF-8.
void append_json_string(std::string_view text, std::string& out);

}  // namespace sirenfeed::ingest
