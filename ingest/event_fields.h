#pragma once
// One JSON object's fields as an event's members: types, limits, and what to say when they do not
// hold. Internal to the parser (it shows simdjson).
#include <simdjson.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "ingest/event_parser.h"
#include "ingest/event_sink.h"

namespace sirenfeed::ingest {

/// Every reader returns false after the first fault, which failure() then holds. Threads: one.
class EventFields {
 public:
  using Json = simdjson::dom::element;

  explicit EventFields(const ParserConfig& config) : config_(config) {}

  bool id(std::string_view name, Json value, std::string& out);
  bool id(std::string_view name, Json value, std::optional<std::string>& out);
  /// A list of names, each once, in order.
  bool names(std::string_view name, Json value, std::size_t names_max,
             std::vector<std::string>& out);
  bool text(std::string_view name, Json value, std::optional<std::string>& out);
  bool time(std::string_view name, Json value, std::optional<base::UnixMs>& out);
  bool flag(std::string_view name, Json value, bool& out);
  bool number(std::string_view name, Json value, double& out);
  bool number(std::string_view name, Json value, std::optional<double>& out);
  bool numeric(std::string_view name, Json value, std::vector<std::pair<std::string, double>>& out);
  bool shown_items(std::string_view name, Json value, std::vector<ShownItem>& out);

  bool require(bool present, std::string_view name);
  bool check_id_text(std::string_view name, std::string_view text);
  bool check_time(std::string_view name, base::UnixMs time_ms, std::string_view got);

  void unknown_field() { ++unknown_fields_; }
  bool fail(RejectReason reason, std::string detail);
  /// "user_id: expected a string, got 1.5"
  bool expected(RejectReason reason, std::string_view name, std::string_view what, Json got);

  [[nodiscard]] Rejection& failure() { return failure_; }
  [[nodiscard]] std::uint32_t unknown_fields() const { return unknown_fields_; }
  [[nodiscard]] std::uint32_t repeated_items() const { return repeated_items_; }

 private:
  bool time_of_text(std::string_view name, Json value, std::string_view text,
                    std::optional<base::UnixMs>& out);
  bool shown_item(const std::string& name, Json value, ShownItem& out);
  bool position(const std::string& name, Json value, std::optional<std::int32_t>& out);

  const ParserConfig& config_;
  Rejection failure_;
  std::uint32_t unknown_fields_ = 0;
  std::uint32_t repeated_items_ = 0;
};

/// At most `bytes_max` bytes of UTF-8 text, cut between characters, with "…" where it was cut.
[[nodiscard]] std::string excerpt(std::string_view text, std::size_t bytes_max = 80);

}  // namespace sirenfeed::ingest
