#pragma once
// Everything that is kept of one user, decoded.
#include <bitset>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "features/catalog_item.h"
#include "features/decayed_counter.h"
#include "features/features_config.h"
#include "features/residual_counter.h"
#include "ingest/topic.h"

namespace sirenfeed::features {

/// Number of an action's type in the store's list of types (action_types.h).
using ActionType = std::uint8_t;

/// The first action of a type on a sequence entry.
struct ActionMark {
  ActionType type = 0;
  base::UnixMs time_ms = 0;
  std::optional<float> value;
};

/// One exposure, or (exposed false) an action that joined no impression.
struct SequenceEntry {
  Key item = kNoKey;
  base::UnixMs time_ms = 0;
  ingest::Offset offset = 0;  // of the impression; of the action where not exposed
  Key surface = kNoKey;
  bool exposed = true;
  float p0 = 0;                     // of the extended set, as of the exposure
  std::vector<ActionMark> actions;  // one a type, by arrival

  [[nodiscard]] const ActionMark* find(ActionType type) const;
  /// The action is known strictly before `t`.
  [[nodiscard]] bool has_before(ActionType type, base::UnixMs t) const {
    const ActionMark* mark = find(type);
    return mark != nullptr && mark->time_ms < t;
  }
};

struct SeenItem {
  Key item = kNoKey;
  base::UnixMs first_ms = 0;
};

enum class PairKind : std::uint8_t { kSurface, kTag, kAuthor, kHalfBucket };
template <class Counter>
struct CounterOfPair {
  Key key = kNoKey;  // of the surface, tag, author or half the duration's bucket
  PairKind kind = PairKind::kSurface;
  Counter counter;
};
using PairCounter = CounterOfPair<UserCounter>;
using ResidualPair = CounterOfPair<UserResiduals>;

struct UserProfile {
  base::UnixMs time_ms = 0;
  std::optional<std::string> segment;
  std::vector<std::string> blocked_authors;
  std::vector<std::string> blocked_tags;
};

/// The value of a user is cut into sections. While all of it is small they lie in the head's value;
/// afterwards each has a key of its own, so that an event rewrites a part of a heavy user only.
inline constexpr std::size_t kUserBuckets = 8;
inline constexpr std::size_t kUserSections = 1 + 2 * kUserBuckets;
using SectionSet = std::bitset<kUserSections>;
inline constexpr std::size_t kSequenceSection = 0;
[[nodiscard]] inline std::size_t bucket_of(Key key) { return key >> 61U; }
[[nodiscard]] inline std::size_t seen_section(Key key) { return 1 + bucket_of(key); }
[[nodiscard]] inline std::size_t pair_section(Key key) { return 1 + kUserBuckets + bucket_of(key); }

struct UserState {
  std::optional<UserProfile> profile;
  UserCounter total;
  std::vector<SequenceEntry> sequence;  // by (time, arrival), the newest sequence_max
  std::vector<SeenItem> seen;           // by item
  std::vector<PairCounter> pairs;       // by (key, kind)
  // Of the extended set; `residuals` is not empty as soon as an exposure was counted.
  UserResiduals residuals;
  std::vector<ResidualPair> residual_pairs;  // by (key, kind)

  [[nodiscard]] bool empty() const {
    return !profile && total.empty() && sequence.empty() && seen.empty() && pairs.empty() &&
           residuals.empty();
  }
  /// Null: never seen.
  [[nodiscard]] const UserCounter* pair(PairKind kind, Key key) const;
  [[nodiscard]] const UserResiduals* residual_pair(PairKind kind, Key key) const;
  [[nodiscard]] bool seen_before(Key item, base::UnixMs t) const;
  /// Roughly, for the cache's bound.
  [[nodiscard]] std::size_t memory_bytes() const;

  // The changes; each returns or marks the sections that it touched.
  void insert(SequenceEntry entry, std::size_t sequence_max);
  /// The exposure of `item` in the impression at (time, offset); null when no longer kept.
  [[nodiscard]] SequenceEntry* exposure(Key item, base::UnixMs time, ingest::Offset offset);
  /// The newest exposure of `item` with time <= action < time + window + 1 ms.
  [[nodiscard]] SequenceEntry* exposure_within(Key item, base::UnixMs action, base::UnixMs window);
  void see(Key item, base::UnixMs t, const UserLimits& limits, SectionSet& dirty);
  UserCounter& pair_for(PairKind kind, Key key, base::UnixMs t, const UserLimits& limits,
                        SectionSet& dirty);
  /// Bounded by pairs_max of its own.
  UserResiduals& residual_pair_for(PairKind kind, Key key, base::UnixMs t, const UserLimits& limits,
                                   SectionSet& dirty);

  /// user = version · flags · profile · total · {section number · bytes}: sections only if inline.
  [[nodiscard]] std::string encode_head(bool external) const;
  [[nodiscard]] std::string encode_section(std::size_t section) const;
  /// `external` tells whether the sections have keys of their own.
  [[nodiscard]] base::Result<void> decode_head(std::string_view value, bool& external);
  /// After the head, in order of section numbers.
  [[nodiscard]] base::Result<void> decode_section(std::size_t section, std::string_view value);
};

/// Largest sum of section bytes that stays in the head.
inline constexpr std::size_t kInlineSectionsMax = 3'000;

}  // namespace sirenfeed::features
