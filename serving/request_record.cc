#include "serving/request_record.h"

#include <fmt/format.h>

#include <iterator>

#include "ingest/base64.h"
#include "ingest/event_json.h"

namespace sirenfeed::serving {

namespace {

void append_number(std::string& out, double value) {
  fmt::format_to(std::back_inserter(out), "{}", value);  // shortest form that reads back equal
}

void append_item(const RecordedItem& item, std::size_t position, std::string& out) {
  out += "{\"item_id\":";
  ingest::append_json_string(item.item_id, out);
  fmt::format_to(std::back_inserter(out), ",\"position\":{},\"score\":{},\"propensity\":{}",
                 position, item.score, item.propensity);
  fmt::format_to(std::back_inserter(out), ",\"explored\":{},\"source\":\"{}\",\"probabilities\":{{",
                 item.explored, item.source);
  bool first = true;
  for (const auto& [task, probability] : item.probabilities) {
    if (!std::exchange(first, false)) out += ',';
    ingest::append_json_string(task, out);
    out += ':';
    append_number(out, probability);
  }
  out += "},\"context\":[";
  first = true;
  for (const float c : item.context) {
    if (!std::exchange(first, false)) out += ',';
    fmt::format_to(std::back_inserter(out), "{}", c);
  }
  out += "]}";
}

}  // namespace

std::string request_json(const RequestRecord& record) {
  std::string out = "{\"request_id\":";
  ingest::append_json_string(record.request_id, out);
  out += ",\"user_id\":";
  ingest::append_json_string(record.user_id, out);
  fmt::format_to(std::back_inserter(out), ",\"timestamp\":{}", record.time_ms);
  if (!record.surface.empty()) {
    out += ",\"surface\":";
    ingest::append_json_string(record.surface, out);
  }
  fmt::format_to(std::back_inserter(out), ",\"model_version\":{}", record.model_version);
  if (record.degraded) {
    out += ",\"degraded\":";
    ingest::append_json_string(*record.degraded, out);
  }
  fmt::format_to(std::back_inserter(out), ",\"context_schema\":\"{:016x}\",\"items\":[",
                 record.context_schema);
  for (std::size_t i = 0; i < record.items.size(); ++i) {
    if (i > 0) out += ',';
    append_item(record.items[i], i, out);
  }
  out += ']';
  if (!record.inputs.empty()) {
    out += ",\"inputs\":\"";
    out += ingest::base64_encode(record.inputs);
    out += '"';
  }
  out += '}';
  return out;
}

}  // namespace sirenfeed::serving
