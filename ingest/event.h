#pragma once
// What publishers send, after parsing and validation. Times are Unix milliseconds; ids are 1 to 128
// bytes of UTF-8; an absent field is nullopt (or an empty list), never 0 or "".
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "ingest/topic.h"

namespace sirenfeed::ingest {

struct ShownItem {
  std::string item_id;
  std::optional<std::int32_t> position;
  std::optional<double> score;
  std::optional<double> propensity;
};

/// Topic impressions: one slate that a user was shown.
struct Impression {
  std::string impression_id;
  std::string user_id;
  base::UnixMs time_ms = 0;
  std::vector<ShownItem> items;
  std::optional<std::string> request_id;
  std::optional<std::string> surface;
};

/// Topic clicks: something a user did to an item. `type` is "click" where the publisher gave none.
struct Action {
  std::string user_id;
  std::string item_id;
  base::UnixMs time_ms = 0;
  std::string type;
  std::optional<double> value;
  std::optional<std::string> impression_id;
  std::optional<std::string> event_id;
};

/// Topic items: the whole metadata of an item (a later record replaces an earlier one), or its
/// takedown.
struct ItemUpdate {
  std::string item_id;
  base::UnixMs time_ms = 0;
  bool deleted = false;
  bool hidden = false;
  std::optional<base::UnixMs> published_at_ms;
  std::optional<base::UnixMs> expires_at_ms;
  std::optional<std::string> author_id;
  std::vector<std::string> tags;  // in the publisher's order, distinct
  std::vector<std::pair<std::string, double>> numeric;
  std::optional<std::string> title;
  std::optional<std::string> url;
  std::optional<std::string> image_url;
  std::optional<std::string> language;
};

/// Topic users: the whole profile of a user, or the order to erase everything about the user.
struct UserUpdate {
  std::string user_id;
  base::UnixMs time_ms = 0;
  bool erase = false;
  std::optional<std::string> segment;
  std::vector<std::string> blocked_authors;
  std::vector<std::string> blocked_tags;
};

/// Topic requests: one feed that serving has answered with. Written by serving alone; what else the
/// record says is for people.
struct ServedRequest {
  std::string request_id;
  std::string user_id;
  base::UnixMs time_ms = 0;
  std::string inputs;  // what the model was given, as features encodes it; empty: no model answered
};

using EventBody = std::variant<ItemUpdate, UserUpdate, Impression, Action, ServedRequest>;

[[nodiscard]] inline base::UnixMs event_time_ms(const EventBody& body) {
  return std::visit([](const auto& event) { return event.time_ms; }, body);
}

}  // namespace sirenfeed::ingest
