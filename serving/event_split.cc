#include "serving/event_split.h"

#include <optional>

namespace sirenfeed::serving {

using base::ErrorCode;
using base::fail;

namespace {

constexpr std::string_view kSpace = " \t\r\n";

std::string_view trim(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(kSpace);
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

/// Index after the value at `begin`: after its last bracket, or at the next comma, ']' or line end
/// where it is no object or array. nullopt when brackets or quotes are not closed.
std::optional<std::size_t> value_end(std::string_view text, std::size_t begin) {
  std::size_t depth = 0;
  bool quoted = false;
  for (std::size_t i = begin; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c == '\\') {
        ++i;
      } else if (c == '"') {
        quoted = false;
      }
    } else if (c == '"') {
      quoted = true;
    } else if (c == '{' || c == '[') {
      ++depth;
    } else if (depth > 0 && (c == '}' || c == ']')) {
      if (--depth == 0) return i + 1;
    } else if (depth == 0 && (c == ',' || c == ']' || c == '}')) {
      return i;
    }
  }
  if (depth > 0 || quoted) return std::nullopt;
  return text.size();
}

base::Result<std::vector<std::string_view>> split_array(std::string_view text) {
  std::vector<std::string_view> events;
  std::size_t at = text.find_first_not_of(kSpace, 1);
  if (at != text.npos && text[at] == ']') {
    return fail(ErrorCode::kInvalidArgument, "body: the array is empty");
  }
  while (at != text.npos) {
    const auto end = value_end(text, at);
    if (!end) break;
    events.push_back(trim(text.substr(at, *end - at)));
    const std::size_t next = text.find_first_not_of(kSpace, *end);
    if (next == text.npos) break;
    if (text[next] == ']') {
      if (text.find_first_not_of(kSpace, next + 1) == text.npos) return events;
      return fail(ErrorCode::kInvalidArgument, "body: something follows the array at byte {}",
                  next + 1);
    }
    if (text[next] != ',') {
      return fail(ErrorCode::kInvalidArgument, "body: expected ',' or ']' at byte {}", next);
    }
    at = text.find_first_not_of(kSpace, next + 1);
  }
  return fail(ErrorCode::kInvalidArgument, "body: the array is not closed");
}

std::vector<std::string_view> split_lines(std::string_view text) {
  std::vector<std::string_view> events;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    if (const std::string_view line = trim(text.substr(0, end)); !line.empty()) {
      events.push_back(line);
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return events;
}

bool first_line_is_whole(std::string_view text) {
  const std::size_t line_end = text.find('\n');
  if (line_end == text.npos) return false;
  const auto end = value_end(text, 0);
  return end && *end <= line_end && trim(text.substr(*end, line_end - *end)).empty();
}

}  // namespace

base::Result<std::vector<std::string_view>> split_events(std::string_view body,
                                                         std::string_view content_type) {
  const std::string_view text = trim(body);
  if (text.empty()) {
    return fail(ErrorCode::kInvalidArgument,
                "body: is empty; expected an event, an array of events, or one event a line");
  }
  const bool lines = content_type.find("ndjson") != content_type.npos ||
                     content_type.find("jsonl") != content_type.npos;
  if (lines || (text[0] == '{' && first_line_is_whole(text))) return split_lines(text);
  if (text[0] == '[') return split_array(text);
  return std::vector<std::string_view>{text};
}

}  // namespace sirenfeed::serving
