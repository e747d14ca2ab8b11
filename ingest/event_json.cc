#include "ingest/event_json.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/check.h"
#include "ingest/base64.h"

namespace sirenfeed::ingest {
namespace {

/// Writes one JSON object member by member.
class ObjectWriter {
 public:
  explicit ObjectWriter(std::string& out) : out_(out) { out_ += '{'; }
  ObjectWriter(const ObjectWriter&) = delete;
  ObjectWriter& operator=(const ObjectWriter&) = delete;
  void end() { out_ += '}'; }

  void name(std::string_view name) {
    if (!first_) out_ += ',';
    first_ = false;
    out_ += '"';
    out_ += name;
    out_ += "\":";
  }
  void text(std::string_view key, std::string_view value) {
    name(key);
    append_json_string(value, out_);
  }
  void text(std::string_view key, const std::optional<std::string>& value) {
    if (value) text(key, std::string_view(*value));
  }
  void integer(std::string_view key, std::int64_t value) {
    name(key);
    const fmt::format_int digits(value);
    out_.append(digits.data(), digits.size());
  }
  void integer(std::string_view key, const std::optional<base::UnixMs>& value) {
    if (value) integer(key, *value);
  }
  void number(double value) {
    SF_CHECK(std::isfinite(value));
    std::array<char, 32> digits{};
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
    out_.append(digits.data(), end);
  }
  void number(std::string_view key, const std::optional<double>& value) {
    if (!value) return;
    name(key);
    number(*value);
  }
  void flag(std::string_view key, bool value) {
    if (!value) return;  // false is what an absent flag means
    name(key);
    out_ += "true";
  }
  void texts(std::string_view key, const std::vector<std::string>& values) {
    if (values.empty()) return;
    name(key);
    out_ += '[';
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (i > 0) out_ += ',';
      append_json_string(values[i], out_);
    }
    out_ += ']';
  }

 private:
  std::string& out_;
  bool first_ = true;
};

void append(const ShownItem& item, std::string& out) {
  if (!item.position && !item.score && !item.propensity) {
    append_json_string(item.item_id, out);
    return;
  }
  ObjectWriter object(out);
  object.text("item_id", std::string_view(item.item_id));
  if (item.position) object.integer("position", *item.position);
  object.number("score", item.score);
  object.number("propensity", item.propensity);
  object.end();
}

void append(const Impression& event, ObjectWriter& object, std::string& out) {
  object.text("impression_id", std::string_view(event.impression_id));
  object.text("user_id", std::string_view(event.user_id));
  object.integer("timestamp", event.time_ms);
  object.name("items");
  out += '[';
  for (std::size_t i = 0; i < event.items.size(); ++i) {
    if (i > 0) out += ',';
    append(event.items[i], out);
  }
  out += ']';
  object.text("request_id", event.request_id);
  object.text("surface", event.surface);
}

void append(const Action& event, ObjectWriter& object, std::string& /*out*/) {
  object.text("user_id", std::string_view(event.user_id));
  object.text("item_id", std::string_view(event.item_id));
  object.integer("timestamp", event.time_ms);
  object.text("type", std::string_view(event.type));
  object.number("value", event.value);
  object.text("impression_id", event.impression_id);
  object.text("event_id", event.event_id);
}

void append(const ItemUpdate& event, ObjectWriter& object, std::string& out) {
  object.text("item_id", std::string_view(event.item_id));
  object.integer("timestamp", event.time_ms);
  object.flag("deleted", event.deleted);
  object.flag("hidden", event.hidden);
  object.integer("published_at", event.published_at_ms);
  object.integer("expires_at", event.expires_at_ms);
  object.text("author_id", event.author_id);
  object.texts("tags", event.tags);
  if (!event.numeric.empty()) {
    object.name("numeric");
    ObjectWriter numeric(out);
    for (const auto& [field, value] : event.numeric) {
      // A field's name may need escapes, which ObjectWriter's own names never do.
      if (&field != &event.numeric.front().first) out += ',';
      append_json_string(field, out);
      out += ':';
      numeric.number(value);
    }
    numeric.end();
  }
  object.text("title", event.title);
  object.text("url", event.url);
  object.text("image_url", event.image_url);
  object.text("language", event.language);
}

void append(const UserUpdate& event, ObjectWriter& object, std::string& /*out*/) {
  object.text("user_id", std::string_view(event.user_id));
  object.integer("timestamp", event.time_ms);
  object.flag("erase", event.erase);
  object.text("segment", event.segment);
  object.texts("blocked_authors", event.blocked_authors);
  object.texts("blocked_tags", event.blocked_tags);
}

void append(const ServedRequest& event, ObjectWriter& object, std::string& /*out*/) {
  object.text("request_id", std::string_view(event.request_id));
  object.text("user_id", std::string_view(event.user_id));
  object.integer("timestamp", event.time_ms);
  if (!event.inputs.empty()) {
    object.text("inputs", std::string_view(base64_encode(event.inputs)));
  }
}

struct TopicOf {
  Topic operator()(const ItemUpdate&) const noexcept { return Topic::kItems; }
  Topic operator()(const UserUpdate&) const noexcept { return Topic::kUsers; }
  Topic operator()(const Impression&) const noexcept { return Topic::kImpressions; }
  Topic operator()(const Action&) const noexcept { return Topic::kClicks; }
  Topic operator()(const ServedRequest&) const noexcept { return Topic::kRequests; }
};

struct KeyOf {
  const std::string& operator()(const ItemUpdate& event) const noexcept { return event.item_id; }
  template <class Event>
  const std::string& operator()(const Event& event) const noexcept {
    return event.user_id;
  }
};

}  // namespace

void append_event_json(const EventBody& body, JsonForm form, std::string& out) {
  ObjectWriter object(out);
  if (form == JsonForm::kTagged) object.text("topic", topic_name(event_topic(body)));
  std::visit([&](const auto& event) { append(event, object, out); }, body);
  object.end();
}

std::string event_json(const EventBody& body, JsonForm form) {
  std::string out;
  append_event_json(body, form, out);
  return out;
}

Topic event_topic(const EventBody& body) noexcept { return std::visit(TopicOf{}, body); }

const std::string& event_key(const EventBody& body) noexcept { return std::visit(KeyOf{}, body); }

void append_json_string(std::string_view text, std::string& out) {
  constexpr std::string_view kHex = "0123456789abcdef";
  out += '"';
  std::size_t plain = 0;  // where the run of characters that need no escape begins
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte >= 0x20 && byte != '"' && byte != '\\') continue;
    out.append(text, plain, i - plain);
    plain = i + 1;
    out += '\\';
    switch (byte) {
      case '"':
      case '\\':
        out += text[i];
        break;
      case '\n':
        out += 'n';
        break;
      case '\r':
        out += 'r';
        break;
      case '\t':
        out += 't';
        break;
      default:
        out += "u00";
        out += kHex[byte >> 4U];
        out += kHex[byte & 15U];
    }
  }
  out.append(text, plain);
  out += '"';
}

}  // namespace sirenfeed::ingest
