#include "base/result.h"

namespace sirenfeed::base {

const char* error_code_name(ErrorCode code) noexcept {
  switch (code) {
    case ErrorCode::kInvalidArgument:
      return "invalid_argument";
    case ErrorCode::kDecode:
      return "decode";
    case ErrorCode::kNotFound:
      return "not_found";
    case ErrorCode::kAlreadyExists:
      return "already_exists";
    case ErrorCode::kUnavailable:
      return "unavailable";
    case ErrorCode::kStorage:
      return "storage";
    case ErrorCode::kLocked:
      return "locked";
    case ErrorCode::kCorrupt:
      return "corrupt";
    case ErrorCode::kTooLarge:
      return "too_large";
    case ErrorCode::kClosed:
      return "closed";
    case ErrorCode::kInternal:
      return "internal";
  }
  return "unknown";
}

}  // namespace sirenfeed::base
