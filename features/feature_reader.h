#pragma once
// What serving reads of the state. Threads: any number of readers beside the one that applies.
// User-side reads are of one committed batch; item-side reads may already see the batch in the
// making.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "features/catalog_item.h"
#include "features/features_config.h"

namespace sirenfeed::features {

struct UserState;  // user_state.h: decoded, internal to this folder

/// One exposure of the history. `tags` index into History::tags.
struct HistoryToken {
  Key item = kNoKey;
  Key author = kNoKey;
  std::uint32_t tags_begin = 0;
  std::uint32_t tags_end = 0;
  base::UnixMs time_ms = 0;
  std::uint32_t action_bits = 0;  // bit a: configured action a known strictly before the request
  Key surface = kNoKey;           // where it was shown
};

/// Oldest first, the newest history_max of those strictly older than the request.
struct History {
  std::vector<HistoryToken> tokens;
  std::vector<Key> tags;
};

/// A user as of one committed batch and one time. Unknown users have an empty one (`known` false).
struct UserSnapshot {
  std::string user_id;
  bool known = false;
  base::UnixMs time_ms = 0;  // the request's time
  std::optional<std::string> segment;
  Key segment_key = kNoKey;
  std::vector<Key> blocked_authors;  // sorted
  std::vector<Key> blocked_tags;     // sorted
  History history;
  std::shared_ptr<const UserState> state;  // never null

  /// The item was shown to the user as far as is known, also at time_ms (where a clock of events
  /// stands right after an exposure) or after it (a client's clock may be ahead of ours).
  [[nodiscard]] bool seen(Key item) const;
  /// Tags and authors of the exposures, by decayed clicks (30 d), most clicked first.
  [[nodiscard]] std::vector<Key> top_tags(std::size_t limit) const;
  [[nodiscard]] std::vector<Key> top_authors(std::size_t limit) const;
};

/// One entry of the user's sequence, for GET /v1/users/{user} and inspect.
struct SequenceAction {
  std::string type;
  base::UnixMs time_ms = 0;
  std::optional<double> value;
};
struct SequenceView {
  Key item = kNoKey;
  base::UnixMs time_ms = 0;
  bool exposed = true;  // false: an action that joined no impression
  Key surface = kNoKey;
  std::vector<SequenceAction> actions;
};

/// One item of a served feed. `info` null: not in the catalog.
struct ServedItem {
  Key item = kNoKey;
  CatalogItemPtr info;
  double propensity = 0;  // 0: not known
};

enum class PopularSpan { kHour, kDay };  // half-life of the clicks that popular() ranks by

class FeatureReader {
 public:
  virtual ~FeatureReader() = default;

  /// One consistent read of the user's keys.
  [[nodiscard]] virtual base::Result<UserSnapshot> read_user(std::string_view user_id,
                                                             base::UnixMs now) const = 0;
  /// Newest last.
  [[nodiscard]] virtual base::Result<std::vector<SequenceView>> read_sequence(
      std::string_view user_id) const = 0;
  /// Time of the user's newest erasure, while its tombstone is kept.
  [[nodiscard]] virtual base::Result<std::optional<base::UnixMs>> erased_at(
      std::string_view user_id) const = 0;

  /// [items, feature_count()] row-major into `out`: c of each item for this user at the snapshot's
  /// time, by the very code that fills examples. Unknown items are computed from what is known.
  virtual void context(const UserSnapshot& user, std::span<const Key> items,
                       std::string_view surface, std::span<float> out) const = 0;
  [[nodiscard]] virtual const std::vector<std::string>& feature_names() const = 0;

  /// What the model was given for these items, as bytes for topic requests: the join puts it into
  /// the example of the impression. `context` is what context() said of them, in their order.
  [[nodiscard]] virtual std::string served_inputs(const UserSnapshot& user,
                                                  std::string_view surface,
                                                  std::span<const ServedItem> items,
                                                  std::span<const float> context) const = 0;

  /// Null when the item was never heard of.
  [[nodiscard]] virtual CatalogItemPtr item(Key hash) const = 0;
  [[nodiscard]] virtual CatalogItemPtr item(std::string_view item_id) const = 0;
  /// Known, not taken down, not hidden, not expired at `now`: may be served.
  [[nodiscard]] virtual bool servable(Key hash, base::UnixMs now) const = 0;

  // Candidate indexes: servable items at `now`, at most `limit`. All empty when indexes are off.
  /// Newest published_at first; items without one count from their event's timestamp.
  [[nodiscard]] virtual std::vector<Key> fresh(std::size_t limit, base::UnixMs now) const = 0;
  /// Most decayed attributed clicks first.
  [[nodiscard]] virtual std::vector<Key> popular(PopularSpan span, std::size_t limit,
                                                 base::UnixMs now) const = 0;
  /// Newest first.
  [[nodiscard]] virtual std::vector<Key> by_tag(Key tag, std::size_t limit,
                                                base::UnixMs now) const = 0;
  [[nodiscard]] virtual std::vector<Key> by_author(Key author, std::size_t limit,
                                                   base::UnixMs now) const = 0;
  /// Distinct, a pure function of `seed` and the index's content.
  [[nodiscard]] virtual std::vector<Key> random(std::size_t limit, std::uint64_t seed,
                                                base::UnixMs now) const = 0;
  [[nodiscard]] virtual std::size_t indexed_items() const = 0;
};

}  // namespace sirenfeed::features
