#include "ingest/event_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <unordered_set>

#include "ingest/event_time.h"

namespace sirenfeed::ingest {
namespace {

using simdjson::dom::element_type;

constexpr base::UnixMs kTimeMaxMs = 253'402'300'799'999;  // the last of the year 9999

/// A JSON integer's digits. False: `value` is no integer.
bool digits_of(simdjson::dom::element value, std::string& out) {
  if (value.type() == element_type::INT64) {
    const fmt::format_int digits(value.get_int64().value_unsafe());
    out.assign(digits.data(), digits.size());
    return true;
  }
  if (value.type() == element_type::UINT64) {
    const fmt::format_int digits(value.get_uint64().value_unsafe());
    out.assign(digits.data(), digits.size());
    return true;
  }
  return false;
}

bool all_digits(std::string_view text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

std::string excerpt(std::string_view text, std::size_t bytes_max) {
  if (text.size() <= bytes_max) return std::string(text);
  std::size_t end = bytes_max;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
  return std::string(text.substr(0, end)) + "…";
}

bool EventFields::fail(RejectReason reason, std::string detail) {
  failure_ = {reason, std::move(detail)};
  return false;
}

bool EventFields::expected(RejectReason reason, std::string_view name, std::string_view what,
                           Json got) {
  return fail(reason,
              fmt::format("{}: expected {}, got {}", name, what, excerpt(simdjson::minify(got))));
}

bool EventFields::require(bool present, std::string_view name) {
  if (present) return true;
  return fail(RejectReason::kMissingField, fmt::format("{}: missing", name));
}

bool EventFields::check_id_text(std::string_view name, std::string_view text) {
  if (text.empty()) {
    return fail(
        RejectReason::kInvalidValue,
        fmt::format("{}: expected 1 to {} bytes, got an empty string", name, config_.id_bytes_max));
  }
  if (text.size() > config_.id_bytes_max) {
    return fail(RejectReason::kIdTooLong,
                fmt::format("{}: expected at most {} bytes (id_bytes_max), got {}: {}", name,
                            config_.id_bytes_max, text.size(), excerpt(text)));
  }
  if (text.find('\0') != std::string_view::npos) {
    return fail(RejectReason::kInvalidValue,
                fmt::format("{}: expected no NUL character, got one", name));
  }
  return true;
}

bool EventFields::id(std::string_view name, Json value, std::string& out) {
  if (value.type() == element_type::STRING) {
    const std::string_view text = value.get_string().value_unsafe();
    if (!check_id_text(name, text)) return false;
    out.assign(text);
    return true;
  }
  if (digits_of(value, out)) return true;
  return expected(RejectReason::kWrongType, name, "a string or an integer", value);
}

bool EventFields::id(std::string_view name, Json value, std::optional<std::string>& out) {
  return id(name, value, out.emplace());
}

bool EventFields::names(std::string_view name, Json value, std::size_t names_max,
                        std::vector<std::string>& out) {
  if (!value.is_array()) return expected(RejectReason::kWrongType, name, "an array", value);
  out.clear();
  std::unordered_set<std::string> seen;
  std::string text;
  std::size_t index = 0;
  const simdjson::dom::array array = value.get_array().value_unsafe();
  for (const Json entry : array) {
    if (!id(fmt::format("{}[{}]", name, index++), entry, text)) return false;
    if (seen.insert(text).second) out.push_back(text);
    if (out.size() > names_max) {
      return fail(RejectReason::kInvalidValue,
                  fmt::format("{}: expected at most {} entries, got more", name, names_max));
    }
  }
  return true;
}

bool EventFields::text(std::string_view name, Json value, std::optional<std::string>& out) {
  if (value.type() != element_type::STRING) {
    return expected(RejectReason::kWrongType, name, "a string", value);
  }
  const std::string_view text = value.get_string().value_unsafe();
  if (text.size() > config_.text_bytes_max) {
    return fail(RejectReason::kInvalidValue,
                fmt::format("{}: expected at most {} bytes (text_bytes_max), got {}", name,
                            config_.text_bytes_max, text.size()));
  }
  out.emplace(text);
  return true;
}

bool EventFields::check_time(std::string_view name, base::UnixMs time_ms, std::string_view got) {
  if (time_ms < 0 || time_ms > kTimeMaxMs) {
    return fail(RejectReason::kInvalidValue,
                fmt::format("{}: expected a time before the year 10000, not negative, got {}", name,
                            excerpt(got)));
  }
  if (time_ms < config_.timestamp_min_ms) {
    return fail(
        RejectReason::kTimeTooSmall,
        fmt::format("{}: expected at least {} ms (timestamp_min), got {}: is it in seconds?", name,
                    config_.timestamp_min_ms, excerpt(got)));
  }
  return true;
}

bool EventFields::time_of_text(std::string_view name, Json value, std::string_view text,
                               std::optional<base::UnixMs>& out) {
  std::optional<base::UnixMs> time;
  if (all_digits(text)) {
    base::UnixMs ms = std::numeric_limits<base::UnixMs>::max();  // out of range stays that
    std::from_chars(text.data(), text.data() + text.size(), ms);
    time = ms;
  } else {
    time = parse_iso8601(text);
  }
  if (!time) {
    return expected(RejectReason::kInvalidValue, name, "milliseconds or an ISO-8601 time with zone",
                    value);
  }
  if (!check_time(name, *time, text)) return false;
  out = *time;
  return true;
}

bool EventFields::time(std::string_view name, Json value, std::optional<base::UnixMs>& out) {
  switch (value.type()) {
    case element_type::INT64:
      out = value.get_int64().value_unsafe();
      if (*out >= config_.timestamp_min_ms && *out <= kTimeMaxMs) return true;
      return check_time(name, *out, simdjson::minify(value));
    case element_type::UINT64:  // larger than any int64
      return check_time(name, std::numeric_limits<base::UnixMs>::max(), simdjson::minify(value));
    case element_type::DOUBLE: {
      const double ms = std::floor(value.get_double().value_unsafe());
      out = static_cast<base::UnixMs>(std::clamp(ms, -1.0, 1e18));
      return check_time(name, *out, simdjson::minify(value));
    }
    case element_type::STRING:
      return time_of_text(name, value, value.get_string().value_unsafe(), out);
    default:
      return expected(RejectReason::kWrongType, name, "milliseconds or an ISO-8601 time with zone",
                      value);
  }
}

bool EventFields::flag(std::string_view name, Json value, bool& out) {
  if (!value.is_bool()) return expected(RejectReason::kWrongType, name, "true or false", value);
  out = value.get_bool().value_unsafe();
  return true;
}

bool EventFields::number(std::string_view name, Json value, double& out) {
  if (value.get(out) != simdjson::SUCCESS) {
    return expected(RejectReason::kWrongType, name, "a number", value);
  }
  out += 0.0;  // −0 becomes 0: written as an event again it would be the integer 0
  return true;
}

bool EventFields::number(std::string_view name, Json value, std::optional<double>& out) {
  return number(name, value, out.emplace());
}

bool EventFields::numeric(std::string_view name, Json value,
                          std::vector<std::pair<std::string, double>>& out) {
  if (!value.is_object()) return expected(RejectReason::kWrongType, name, "an object", value);
  out.clear();
  const simdjson::dom::object object = value.get_object().value_unsafe();
  for (const auto field : object) {
    if (field.value.is_null()) continue;
    const std::string path = fmt::format("{}.{}", name, excerpt(field.key));
    double number_value = 0;
    if (!check_id_text(path, field.key) || !number(path, field.value, number_value)) return false;
    const auto same = std::find_if(out.begin(), out.end(),
                                   [&](const auto& entry) { return entry.first == field.key; });
    if (same != out.end()) {
      same->second = number_value;
    } else {
      out.emplace_back(field.key, number_value);
    }
    if (out.size() > config_.numeric_max) {
      return fail(RejectReason::kInvalidValue,
                  fmt::format("{}: expected at most {} fields (numeric_max), got more", name,
                              config_.numeric_max));
    }
  }
  return true;
}

bool EventFields::position(const std::string& name, Json value, std::optional<std::int32_t>& out) {
  std::int64_t position = 0;
  if (value.get(position) != simdjson::SUCCESS) {
    return expected(RejectReason::kWrongType, name, "an integer", value);
  }
  if (position < 0 || position > std::numeric_limits<std::int32_t>::max()) {
    return expected(RejectReason::kInvalidValue, name, "a position of at least 0", value);
  }
  out = static_cast<std::int32_t>(position);
  return true;
}

bool EventFields::shown_item(const std::string& name, Json value, ShownItem& out) {
  if (!value.is_object()) return id(name, value, out.item_id);
  const simdjson::dom::object object = value.get_object().value_unsafe();
  for (const auto field : object) {
    if (field.value.is_null()) continue;
    bool good = true;
    if (field.key == "item_id") {
      good = id(name + ".item_id", field.value, out.item_id);
    } else if (field.key == "position") {
      good = position(name + ".position", field.value, out.position);
    } else if (field.key == "score") {
      good = number(name + ".score", field.value, out.score);
    } else if (field.key == "propensity") {
      good = number(name + ".propensity", field.value, out.propensity);
      if (good && !(*out.propensity > 0.0 && *out.propensity <= 1.0)) {
        good = expected(RejectReason::kInvalidValue, name + ".propensity",
                        "a probability above 0 and at most 1", field.value);
      }
    } else {
      unknown_field();
    }
    if (!good) return false;
  }
  return require(!out.item_id.empty(), name + ".item_id");
}

bool EventFields::shown_items(std::string_view name, Json value, std::vector<ShownItem>& out) {
  if (!value.is_array()) return expected(RejectReason::kWrongType, name, "an array", value);
  const simdjson::dom::array array = value.get_array().value_unsafe();
  const std::size_t count = array.size();  // saturates far above any limit
  if (count == 0) {
    return fail(RejectReason::kEmptyItems,
                fmt::format("{}: expected at least one item, got []", name));
  }
  if (count > config_.items_max) {
    return fail(RejectReason::kTooManyItems,
                fmt::format("{}: expected at most {} items (items_max), got {}", name,
                            config_.items_max, count));
  }
  out.clear();
  out.reserve(count);
  std::unordered_set<std::string_view> seen;  // of ids in `out`, which does not move any more
  std::size_t index = 0;
  for (const Json entry : array) {
    ShownItem& item = out.emplace_back();
    if (!shown_item(fmt::format("{}[{}]", name, index++), entry, item)) return false;
    if (count > 1 && !seen.insert(item.item_id).second) {
      ++repeated_items_;
      out.pop_back();
    }
  }
  return true;
}

}  // namespace sirenfeed::ingest
