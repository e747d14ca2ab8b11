#include "ingest/event_sink.h"

namespace sirenfeed::ingest {

std::string_view reject_reason_name(RejectReason reason) noexcept {
  switch (reason) {
    case RejectReason::kNotJson:
      return "not_json";
    case RejectReason::kWrongType:
      return "wrong_type";
    case RejectReason::kMissingField:
      return "missing_field";
    case RejectReason::kInvalidValue:
      return "invalid_value";
    case RejectReason::kIdTooLong:
      return "id_too_long";
    case RejectReason::kTimeTooSmall:
      return "time_too_small";
    case RejectReason::kTimeInFuture:
      return "time_in_future";
    case RejectReason::kEmptyItems:
      return "empty_items";
    case RejectReason::kTooManyItems:
      return "too_many_items";
    case RejectReason::kWrongPartition:
      return "wrong_partition";
    case RejectReason::kIdCollision:
      return "id_collision";
    case RejectReason::kTooLarge:
      return "too_large";
    case RejectReason::kTombstone:
      return "tombstone";
    case RejectReason::kTooOld:
      return "too_old";
    case RejectReason::kEventJump:
      return "event_jump";
    case RejectReason::kUndecodable:
      return "undecodable";
  }
  return "unknown";
}

}  // namespace sirenfeed::ingest
