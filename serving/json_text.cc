#include "serving/json_text.h"

#include <fmt/format.h>

#include <cmath>
#include <iterator>
#include <string_view>
#include <utility>

#include "ingest/event_json.h"

namespace sirenfeed::serving {

namespace json = boost::json;

namespace {

void append_double(double value, std::string& out) {
  if (!std::isfinite(value)) {
    out += "null";
  } else if (const auto single = static_cast<float>(value); static_cast<double>(single) == value) {
    fmt::format_to(std::back_inserter(out), "{}", single);
  } else {
    fmt::format_to(std::back_inserter(out), "{}", value);
  }
}

void append(const json::value& value, std::string& out);

void append_array(const json::array& array, std::string& out) {
  out += '[';
  bool first = true;
  for (const json::value& element : array) {
    if (!std::exchange(first, false)) out += ',';
    append(element, out);
  }
  out += ']';
}

void append_object(const json::object& object, std::string& out) {
  out += '{';
  bool first = true;
  for (const auto& [name, value] : object) {
    if (!std::exchange(first, false)) out += ',';
    ingest::append_json_string({name.data(), name.size()}, out);
    out += ':';
    append(value, out);
  }
  out += '}';
}

/// As deep as the value is: ours are four levels, a caller's were parsed with a limit of 32.
void append(const json::value& value, std::string& out) {  // NOLINT(misc-no-recursion)
  switch (value.kind()) {
    case json::kind::null:
      out += "null";
      return;
    case json::kind::bool_:
      out += value.get_bool() ? "true" : "false";
      return;
    case json::kind::int64:
      fmt::format_to(std::back_inserter(out), "{}", value.get_int64());
      return;
    case json::kind::uint64:
      fmt::format_to(std::back_inserter(out), "{}", value.get_uint64());
      return;
    case json::kind::double_:
      append_double(value.get_double(), out);
      return;
    case json::kind::string:
      ingest::append_json_string({value.get_string().data(), value.get_string().size()}, out);
      return;
    case json::kind::array:
      append_array(value.get_array(), out);
      return;
    case json::kind::object:
      append_object(value.get_object(), out);
      return;
  }
}

}  // namespace

std::string json_text(const json::value& value) {
  std::string out;
  append(value, out);
  return out;
}

}  // namespace sirenfeed::serving
