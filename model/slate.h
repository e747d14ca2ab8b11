#pragma once
// What the model scores: integers and floats, nothing of users, Kafka or storage.
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace sirenfeed::model {

/// xxh3_64 of the id; 0 means none.
using Key = std::uint64_t;
inline constexpr Key kNoKey = 0;

/// A token whose time is not known.
inline constexpr std::int64_t kUnknownTime = std::numeric_limits<std::int64_t>::min();

/// An item as it enters the model. `tags` index into Slate::tags.
struct ItemRef {
  Key item = kNoKey;
  Key author = kNoKey;
  std::uint32_t tags_begin = 0;
  std::uint32_t tags_end = 0;
};

struct HistoryToken {
  ItemRef item;
  std::int64_t time_ms = kUnknownTime;
  std::uint32_t action_bits = 0;  // bit a: configured action a known before the request
  Key surface = kNoKey;           // where it was shown; 0: not known
};

/// One request: a history (oldest first, all strictly older than the request; at most L are used,
/// the newest) and its candidates. The scorer neither sorts nor filters.
struct Slate {
  std::int64_t time_ms = kUnknownTime;
  Key segment = kNoKey;
  Key surface = kNoKey;  // of the request; 0: not known
  Key user = kNoKey;     // of the id; only the cross tower reads it
  std::vector<HistoryToken> history;
  std::vector<ItemRef> candidates;
  std::vector<Key> tags;  // of all items above
  /// [candidates, F + F_t] c before standardisation, row-major; the last F_t are for towers alone.
  std::vector<float> context;

  [[nodiscard]] std::span<const Key> tags_of(const ItemRef& item) const {
    return std::span(tags).subspan(item.tags_begin, item.tags_end - item.tags_begin);
  }
};

/// Labels of a slate's candidates, [candidates, K] row-major. weight 0 masks a cell.
struct SlateLabels {
  std::vector<float> label;
  std::vector<float> weight;
  bool correction = false;      // a late action: an unmasked cell's loss is −z (model/loss.h)
  bool fake_negatives = false;  // all cells were negative at first: weighted as model/loss.h says
};

}  // namespace sirenfeed::model
