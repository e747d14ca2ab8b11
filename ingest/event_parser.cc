#include "ingest/event_parser.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <cstring>
#include <optional>
#include <utility>

#include "base/hash.h"
#include "ingest/base64.h"
#include "ingest/event_fields.h"
#include "ingest/event_json.h"
#include "ingest/huge_numbers.h"

namespace sirenfeed::ingest {
namespace {

using base::ErrorCode;
using simdjson::dom::element;
using simdjson::dom::object;

/// Calls `take(key, value)` for the fields that are present; it returns false after a fault.
template <class Take>
bool for_each_field(const object& event, Take take) {
  for (const auto field : event) {
    if (!field.value.is_null() && !take(field.key, field.value)) return false;
  }
  return true;
}

bool check_topic(EventFields& fields, Topic topic, element value) {
  std::string_view name;
  if (value.get(name) == simdjson::SUCCESS && name == topic_name(topic)) return true;
  return fields.expected(RejectReason::kInvalidValue, "topic",
                         fmt::format("\"{}\"", topic_name(topic)), value);
}

bool read_impression(EventFields& fields, const object& json, Impression& out) {
  std::optional<base::UnixMs> time;
  const auto take = [&](std::string_view key, element value) {
    if (key == "impression_id") return fields.id(key, value, out.impression_id);
    if (key == "user_id") return fields.id(key, value, out.user_id);
    if (key == "timestamp") return fields.time(key, value, time);
    if (key == "items") return fields.shown_items(key, value, out.items);
    if (key == "request_id") return fields.id(key, value, out.request_id);
    if (key == "surface") return fields.id(key, value, out.surface);
    if (key == "topic") return check_topic(fields, Topic::kImpressions, value);
    fields.unknown_field();
    return true;
  };
  if (!for_each_field(json, take)) return false;
  out.time_ms = time.value_or(0);
  return fields.require(!out.impression_id.empty(), "impression_id") &&
         fields.require(!out.user_id.empty(), "user_id") &&
         fields.require(time.has_value(), "timestamp") &&
         fields.require(!out.items.empty(), "items");
}

bool read_action(EventFields& fields, const object& json, Action& out) {
  std::optional<base::UnixMs> time;
  out.type = "click";
  const auto take = [&](std::string_view key, element value) {
    if (key == "user_id") return fields.id(key, value, out.user_id);
    if (key == "item_id") return fields.id(key, value, out.item_id);
    if (key == "timestamp") return fields.time(key, value, time);
    if (key == "type") return fields.id(key, value, out.type);
    if (key == "value") return fields.number(key, value, out.value);
    if (key == "impression_id") return fields.id(key, value, out.impression_id);
    if (key == "event_id") return fields.id(key, value, out.event_id);
    if (key == "topic") return check_topic(fields, Topic::kClicks, value);
    fields.unknown_field();
    return true;
  };
  if (!for_each_field(json, take)) return false;
  out.time_ms = time.value_or(0);
  return fields.require(!out.user_id.empty(), "user_id") &&
         fields.require(!out.item_id.empty(), "item_id") &&
         fields.require(time.has_value(), "timestamp");
}

bool read_item(EventFields& fields, const ParserConfig& config, const object& json,
               base::UnixMs log_time_ms, ItemUpdate& out) {
  std::optional<base::UnixMs> time;
  const auto take = [&](std::string_view key, element value) {
    if (key == "item_id") return fields.id(key, value, out.item_id);
    if (key == "timestamp") return fields.time(key, value, time);
    if (key == "deleted") return fields.flag(key, value, out.deleted);
    if (key == "hidden") return fields.flag(key, value, out.hidden);
    if (key == "published_at") return fields.time(key, value, out.published_at_ms);
    if (key == "expires_at") return fields.time(key, value, out.expires_at_ms);
    if (key == "author_id") return fields.id(key, value, out.author_id);
    if (key == "tags") return fields.names(key, value, config.tags_max, out.tags);
    if (key == "numeric") return fields.numeric(key, value, out.numeric);
    if (key == "title") return fields.text(key, value, out.title);
    if (key == "url") return fields.text(key, value, out.url);
    if (key == "image_url") return fields.text(key, value, out.image_url);
    if (key == "language") return fields.id(key, value, out.language);
    if (key == "topic") return check_topic(fields, Topic::kItems, value);
    fields.unknown_field();
    return true;
  };
  if (!for_each_field(json, take)) return false;
  out.time_ms = time.value_or(log_time_ms);
  return fields.require(!out.item_id.empty(), "item_id") &&
         fields.require(time.has_value() || out.deleted, "timestamp");
}

bool read_user(EventFields& fields, const ParserConfig& config, const object& json,
               base::UnixMs log_time_ms, UserUpdate& out) {
  std::optional<base::UnixMs> time;
  const auto take = [&](std::string_view key, element value) {
    if (key == "user_id") return fields.id(key, value, out.user_id);
    if (key == "timestamp") return fields.time(key, value, time);
    if (key == "erase") return fields.flag(key, value, out.erase);
    if (key == "segment") return fields.id(key, value, out.segment);
    if (key == "blocked_authors") {
      return fields.names(key, value, config.blocked_max, out.blocked_authors);
    }
    if (key == "blocked_tags") {
      return fields.names(key, value, config.blocked_max, out.blocked_tags);
    }
    if (key == "topic") return check_topic(fields, Topic::kUsers, value);
    fields.unknown_field();
    return true;
  };
  if (!for_each_field(json, take)) return false;
  out.time_ms = time.value_or(log_time_ms);
  return fields.require(!out.user_id.empty(), "user_id") &&
         fields.require(time.has_value() || out.erase, "timestamp");
}

bool read_inputs(EventFields& fields, element value, std::string& out) {
  std::string_view text;
  auto bytes = value.get(text) == simdjson::SUCCESS ? base64_decode(text) : std::nullopt;
  if (!bytes) return fields.expected(RejectReason::kInvalidValue, "inputs", "base64", value);
  out = *std::move(bytes);
  return true;
}

bool read_request(EventFields& fields, const object& json, ServedRequest& out) {
  std::optional<base::UnixMs> time;
  const auto take = [&](std::string_view key, element value) {
    if (key == "request_id") return fields.id(key, value, out.request_id);
    if (key == "user_id") return fields.id(key, value, out.user_id);
    if (key == "timestamp") return fields.time(key, value, time);
    if (key == "inputs") return read_inputs(fields, value, out.inputs);
    return true;  // the rest is for people
  };
  if (!for_each_field(json, take)) return false;
  out.time_ms = time.value_or(0);
  return fields.require(!out.request_id.empty(), "request_id") &&
         fields.require(!out.user_id.empty(), "user_id") &&
         fields.require(time.has_value(), "timestamp");
}

tl::unexpected<Rejection> reject(RejectReason reason, std::string detail) {
  return tl::unexpected<Rejection>(Rejection{reason, std::move(detail)});
}

}  // namespace

base::Result<void> ParserConfig::validate() const {
  const auto positive = [](std::size_t value, const char* name) -> base::Result<void> {
    if (value > 0) return {};
    return base::fail(ErrorCode::kInvalidArgument, "{}: expected at least 1, got 0", name);
  };
  SF_TRY(positive(message_bytes_max, "message_bytes_max"));
  SF_TRY(positive(id_bytes_max, "id_bytes_max"));
  SF_TRY(positive(items_max, "items_max"));
  SF_TRY(positive(tags_max, "tags_max"));
  SF_TRY(positive(numeric_max, "numeric_max"));
  SF_TRY(positive(blocked_max, "blocked_max"));
  SF_TRY(positive(text_bytes_max, "text_bytes_max"));
  if (timestamp_min_ms < 0) {
    return base::fail(ErrorCode::kInvalidArgument, "timestamp_min: expected at least 0, got {}",
                      timestamp_min_ms);
  }
  if (future_max_ms < 0) {
    return base::fail(ErrorCode::kInvalidArgument, "future_max: expected at least 0, got {}",
                      future_max_ms);
  }
  return {};
}

struct EventParser::Impl {
  Impl(const ParserConfig& parser_config, const base::Clock& now)
      : config(parser_config), clock(now) {}

  tl::expected<element, Rejection> parse_json(std::string_view json);
  tl::expected<object, Rejection> parse_object(std::string_view json);
  ParseResult read(Topic topic, const object& json, base::UnixMs log_time_ms);
  std::optional<Rejection> check_future(const EventBody& body) const;
  tl::expected<EventBody, Rejection> null_value(const LogRecord& record);
  tl::expected<EventBody, Rejection> content(const LogRecord& record, std::string_view payload,
                                             Partition partitions, InputRecord& counts);
  std::optional<Rejection> check_key(const LogRecord& record, const EventBody& body,
                                     Partition partitions) const;

  const ParserConfig config;
  const base::Clock& clock;
  simdjson::dom::parser parser;
  std::string padded;  // the text with the room behind it that simdjson may read
};

tl::expected<element, Rejection> EventParser::Impl::parse_json(std::string_view json) {
  if (padded.size() < json.size() + simdjson::SIMDJSON_PADDING) {
    padded.resize(json.size() + simdjson::SIMDJSON_PADDING);
  }
  if (!json.empty()) std::memcpy(padded.data(), json.data(), json.size());
  element root;
  const auto error = parser.parse(padded.data(), json.size(), false).get(root);
  if (error == simdjson::SUCCESS) return root;
  return reject(RejectReason::kNotJson,
                fmt::format("expected one JSON object, got {} bytes that are not JSON: {}",
                            json.size(), simdjson::error_message(error)));
}

tl::expected<object, Rejection> EventParser::Impl::parse_object(std::string_view json) {
  if (json.size() > config.message_bytes_max) {
    return reject(RejectReason::kTooLarge,
                  fmt::format("expected at most {} bytes (message_bytes_max), got {}",
                              config.message_bytes_max, json.size()));
  }
  auto root = parse_json(json);
  if (!root) {
    const auto quoted = quote_huge_numbers(json);
    if (quoted) root = parse_json(*quoted);
  }
  if (!root) return tl::unexpected(std::move(root).error());
  if (!root->is_object()) {
    return reject(RejectReason::kWrongType,
                  fmt::format("expected a JSON object, got {}", excerpt(simdjson::minify(*root))));
  }
  return root->get_object().value_unsafe();
}

std::optional<Rejection> EventParser::Impl::check_future(const EventBody& body) const {
  if (!config.check_future) return std::nullopt;
  const base::UnixMs time = event_time_ms(body);
  const base::UnixMs now = clock.now_ms();
  if (time <= now + config.future_max_ms) return std::nullopt;
  return Rejection{RejectReason::kTimeInFuture,
                   fmt::format("timestamp: expected at most {} ms (future_max) after now ({}), "
                               "got {}",
                               config.future_max_ms, now, time)};
}

ParseResult EventParser::Impl::read(Topic topic, const object& json, base::UnixMs log_time_ms) {
  EventFields fields(config);
  ParsedEvent event;
  bool good = false;
  switch (topic) {
    case Topic::kItems:
      good = read_item(fields, config, json, log_time_ms, event.body.emplace<ItemUpdate>());
      break;
    case Topic::kUsers:
      good = read_user(fields, config, json, log_time_ms, event.body.emplace<UserUpdate>());
      break;
    case Topic::kImpressions:
      good = read_impression(fields, json, event.body.emplace<Impression>());
      break;
    case Topic::kClicks:
      good = read_action(fields, json, event.body.emplace<Action>());
      break;
    case Topic::kRequests:
      good = read_request(fields, json, event.body.emplace<ServedRequest>());
      break;
    default:
      return reject(RejectReason::kInvalidValue,
                    fmt::format("topic: expected items, users, impressions or clicks, got {}",
                                topic_name(topic)));
  }
  if (!good) return tl::unexpected(std::move(fields.failure()));
  if (auto rejection = check_future(event.body)) return tl::unexpected(std::move(*rejection));
  event.unknown_fields = fields.unknown_fields();
  event.repeated_items = fields.repeated_items();
  return event;
}

tl::expected<EventBody, Rejection> EventParser::Impl::null_value(const LogRecord& record) {
  if (!record.key) {
    return reject(RejectReason::kWrongPartition, "key: expected one, got a record without");
  }
  const bool item = record.source.topic == Topic::kItems;
  if (!item && record.source.topic != Topic::kUsers) {
    return reject(RejectReason::kWrongType, "value: expected a JSON object, got a null value");
  }
  EventFields fields(config);
  if (!fields.check_id_text("key", *record.key)) {
    return tl::unexpected(std::move(fields.failure()));
  }
  if (!simdjson::validate_utf8(*record.key)) {
    return reject(RejectReason::kInvalidValue, "key: expected UTF-8, got other bytes");
  }
  if (item) {
    ItemUpdate takedown;
    takedown.item_id = *record.key;
    takedown.time_ms = record.log_time_ms;
    takedown.deleted = true;
    return takedown;
  }
  UserUpdate erasure;
  erasure.user_id = *record.key;
  erasure.time_ms = record.log_time_ms;
  erasure.erase = true;
  return erasure;
}

std::optional<Rejection> EventParser::Impl::check_key(const LogRecord& record,
                                                      const EventBody& body,
                                                      Partition partitions) const {
  const bool item = record.source.topic == Topic::kItems;
  const std::string& id = event_key(body);
  if (!record.key) {
    return Rejection{RejectReason::kWrongPartition, "key: expected one, got a record without"};
  }
  if (*record.key != id) {
    const bool readable = simdjson::validate_utf8(*record.key);
    return Rejection{
        RejectReason::kWrongPartition,
        fmt::format("key: expected the {} \"{}\", got {}", item ? "item_id" : "user_id", id,
                    readable ? fmt::format("\"{}\"", excerpt(*record.key))
                             : std::string("bytes that are not UTF-8"))};
  }
  if (item) return std::nullopt;
  const Partition owner = partition_of(id, partitions);
  if (owner == record.source.partition) return std::nullopt;
  return Rejection{RejectReason::kWrongPartition,
                   fmt::format("partition: expected {} (murmur2 of the key over {} partitions), "
                               "got {}",
                               owner, partitions, record.source.partition)};
}

tl::expected<EventBody, Rejection> EventParser::Impl::content(const LogRecord& record,
                                                              std::string_view payload,
                                                              Partition partitions,
                                                              InputRecord& counts) {
  EventBody body;
  if (!record.value) {
    auto erased = null_value(record);
    if (!erased) return erased;
    body = *std::move(erased);
  } else {
    auto json = parse_object(payload);
    if (!json) return tl::unexpected(std::move(json).error());
    auto event = read(record.source.topic, *json, record.log_time_ms);
    if (!event) return tl::unexpected(std::move(event).error());
    counts.unknown_fields = event->unknown_fields;
    counts.repeated_items = event->repeated_items;
    body = std::move(event->body);
  }
  if (auto rejection = check_key(record, body, partitions)) {
    return tl::unexpected(std::move(*rejection));
  }
  return body;
}

EventParser::EventParser(const ParserConfig& config, const base::Clock& clock)
    : impl_(std::make_unique<Impl>(config, clock)) {}
EventParser::~EventParser() = default;
EventParser::EventParser(EventParser&&) noexcept = default;
EventParser& EventParser::operator=(EventParser&&) noexcept = default;

InputRecord EventParser::parse(LogRecord record, Partition partitions) {
  InputRecord out;
  out.source = record.source;
  out.offset = record.offset;
  out.log_time_ms = record.log_time_ms;
  const std::string_view payload = record.value ? std::string_view(*record.value) : "";
  out.hash = base::xxh3_64(payload);
  auto content = impl_->content(record, payload, partitions, out);
  if (content) {
    out.time_ms = event_time_ms(*content);
    out.content = *std::move(content);
  } else {
    out.time_ms = record.log_time_ms;
    out.content = std::move(content).error();
  }
  if (record.value) out.payload = *std::move(record.value);
  return out;
}

ParseResult EventParser::parse_event(Topic topic, std::string_view json, base::UnixMs arrival_ms) {
  auto event = impl_->parse_object(json);
  if (!event) return tl::unexpected(std::move(event).error());
  return impl_->read(topic, *event, arrival_ms);
}

ParseResult EventParser::parse_tagged_event(std::string_view json, base::UnixMs arrival_ms) {
  auto event = impl_->parse_object(json);
  if (!event) return tl::unexpected(std::move(event).error());
  element tag;
  if (event->at_key("topic").get(tag) != simdjson::SUCCESS || tag.is_null()) {
    return reject(RejectReason::kMissingField, "topic: missing");
  }
  std::string_view name;
  const bool text = tag.get(name) == simdjson::SUCCESS;
  const auto topic = text ? topic_from_name(name) : std::nullopt;
  if (!topic || *topic == Topic::kRequests || *topic > Topic::kClicks) {
    return reject(text ? RejectReason::kInvalidValue : RejectReason::kWrongType,
                  fmt::format("topic: expected items, users, impressions or clicks, got {}",
                              excerpt(simdjson::minify(tag))));
  }
  return impl_->read(*topic, *event, arrival_ms);
}

}  // namespace sirenfeed::ingest
