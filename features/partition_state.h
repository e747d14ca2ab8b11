#pragma once
// What the applying thread keeps of each partition and input, beside users.
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "features/feature_state.h"
#include "features/held_requests.h"
#include "features/pending_set.h"
#include "features/retained.h"
#include "ingest/event_sink.h"

namespace sirenfeed::features {

/// The last applied record of an input and what became of all of them.
struct InputPosition {
  std::optional<ingest::AppliedPosition> applied;
  Conservation counts;
  bool dirty = false;

  [[nodiscard]] std::string encode() const;
  [[nodiscard]] static base::Result<InputPosition> decode(std::string_view value);
};

/// A record far ahead of the watermark, waiting for others to confirm its date.
struct HeldRecord {
  ingest::InputRecord record;
  base::SteadyTime since;
  std::uint64_t applied_before = 0;  // PartitionState::applied when it came
};

struct PartitionState {
  ingest::Partition partition = 0;
  std::optional<base::UnixMs> newest_ms;  // greatest time applied of impressions and clicks
  base::UnixMs merged_ms = INT64_MIN;     // greatest time applied of any input; not stored
  std::uint64_t applied = 0;              // impressions and clicks since the start; not stored
  std::uint64_t epoch = 1;                // of the examples
  std::uint64_t last_sequence = 0;        // of the examples written to the outbox
  // Nothing is written to the outbox up to the closing of this impression: an earlier store has
  // sent it already.
  std::optional<PendingSet::Place> mute_until;
  base::UnixMs mute_closed_ms = 0;     // when the window of that example closed
  std::uint64_t mute_corrections = 0;  // and this many corrections after it
  ImpressionCounts impressions;
  bool counted = true;  // false: `impressions` begins with a store that did not count
  bool dirty = false;
  PendingSet pending;
  RetainedSet retained;
  HeldRequests requests;
  std::vector<PendingSet::Place> unstored;  // opened by the batch in the making
  std::vector<HeldRecord> held;

  /// meta = version · newest · epoch · last_sequence · [mute: time · offset] · mute_corrections ·
  /// mute_closed · accepted · left · erased.
  [[nodiscard]] std::string encode_meta() const;
  [[nodiscard]] base::Result<void> decode_meta(std::string_view value);
};

/// Held records and labels as they are stored.
[[nodiscard]] std::string encode_held(const ingest::InputRecord& record);
[[nodiscard]] base::Result<ingest::InputRecord> decode_held(std::string_view value);
/// Where the impression of a pending_key lies.
[[nodiscard]] PendingSet::Place pending_place(std::string_view key);
[[nodiscard]] std::string encode_labels(const Pending& pending, bool extended);
/// As encode_labels wrote them: everything of a pending impression but its example.
[[nodiscard]] base::Result<Pending> decode_labels(std::string_view value);

}  // namespace sirenfeed::features
