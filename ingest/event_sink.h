#pragma once
// Where the merged stream goes: the port that features implements and the ingest loop drives.
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "ingest/event.h"
#include "ingest/topic.h"

namespace sirenfeed::ingest {

/// Why a record was not applied. The names are the `reason` of dead letters and metrics.
enum class RejectReason : std::uint8_t {
  kNotJson,
  kWrongType,
  kMissingField,
  kInvalidValue,
  kIdTooLong,
  kTimeTooSmall,  // probably seconds
  kTimeInFuture,
  kEmptyItems,
  kTooManyItems,
  kWrongPartition,
  kIdCollision,
  kTooLarge,
  kTombstone,    // at or before an erasure or takedown: no dead letter
  kTooOld,       // older than dedup_horizon: no dead letter
  kEventJump,    // one wrong date, held for event_jump_hold in vain
  kUndecodable,  // an example that is no protobuf
};
[[nodiscard]] std::string_view reject_reason_name(RejectReason reason) noexcept;

struct Rejection {
  RejectReason reason = RejectReason::kNotJson;
  std::string detail;  // names the field, what it held and what was expected
};

/// One input record after parsing, in merge order. `payload` is kept for dead letters and `hash`
/// (xxh3_64 of the payload) to recognise the record when it is read again.
struct InputRecord {
  TopicPartition source;
  Offset offset = 0;
  base::UnixMs log_time_ms = 0;
  base::UnixMs time_ms = 0;  // merge key: the event's time; the log's time for a rejected record
  std::uint64_t hash = 0;
  std::uint32_t unknown_fields = 0;
  std::uint32_t repeated_items = 0;  // left out of an impression
  std::string payload;
  std::variant<EventBody, Rejection> content;
};

/// The last record of a partition that the state has applied.
struct AppliedPosition {
  Offset offset = 0;
  base::UnixMs time_ms = 0;
  std::uint64_t hash = 0;
};

/// Threads: apply(), idle() and end_of_input() come from one thread.
class EventSink {
 public:
  virtual ~EventSink() = default;
  /// Applies the records in order, all or none, with their offsets. Records at or before the stored
  /// position of their partition are no-ops.
  virtual base::Result<void> apply(std::span<const InputRecord> records) = 0;
  /// Where reading resumes: nullopt when nothing of the partition was applied yet.
  virtual base::Result<std::optional<AppliedPosition>> position(TopicPartition source) = 0;
  /// All inputs of `partition` are at their end and have been quiet for idle_flush_after: closes
  /// the windows whose time has passed by the clock.
  virtual base::Result<void> idle(Partition partition) = 0;
  /// The replayed input is complete: closes every window of `partition`, in order.
  virtual base::Result<void> close_windows(Partition partition) = 0;
};

}  // namespace sirenfeed::ingest
