#pragma once
// What is known of an item.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"

namespace sirenfeed::features {

/// xxh3_64 of an id's bytes; 0 means none.
using Key = std::uint64_t;
inline constexpr Key kNoKey = 0;

/// A catalog entry. A stub (`known` false) is an item that was shown before its event arrived: it
/// has an id and nothing else. Immutable once published.
struct CatalogItem {
  std::string id;
  Key hash = kNoKey;
  bool known = false;
  bool hidden = false;
  base::UnixMs updated_ms = 0;                 // timestamp of the event that it comes from
  std::optional<base::UnixMs> taken_down_ms;   // the newest takedown; still in force unless `known`
  std::optional<base::UnixMs> first_shown_ms;  // earliest exposure applied
  std::optional<base::UnixMs> published_ms;
  std::optional<base::UnixMs> expires_ms;
  std::optional<std::string> author_id;
  Key author = kNoKey;
  std::vector<std::string> tags;
  std::vector<Key> tag_keys;  // of `tags`, same order
  std::vector<std::pair<std::string, double>> numeric;
  std::optional<std::string> title;
  std::optional<std::string> url;
  std::optional<std::string> image_url;
  std::optional<std::string> language;

  [[nodiscard]] Key first_tag() const { return tag_keys.empty() ? kNoKey : tag_keys.front(); }
  /// Not known, and of a takedown or a first exposure before `floor`: as if it had never been,
  /// whether or not a compaction has dropped it.
  [[nodiscard]] bool forgotten(base::UnixMs floor) const {
    return !known &&
           std::max(taken_down_ms.value_or(INT64_MIN), first_shown_ms.value_or(INT64_MIN)) < floor;
  }
  [[nodiscard]] bool taken_down() const { return taken_down_ms.has_value() && !known; }
  [[nodiscard]] bool expired(base::UnixMs now) const {
    return expires_ms.has_value() && *expires_ms <= now;
  }
};
using CatalogItemPtr = std::shared_ptr<const CatalogItem>;

}  // namespace sirenfeed::features
