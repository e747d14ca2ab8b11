#pragma once
// The value of an outbox entry as it lies in the store (docs/FORMATS.md).
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "features/encode.h"

namespace sirenfeed::features {

struct OutboxValue {
  base::UnixMs time_ms = 0;  // of its event
  std::string_view key;      // of the record: examples: user_id, "" once erased
  std::string_view bytes;    // the record's value

  [[nodiscard]] std::string encode() const {
    std::string value;
    Encoder out(value);
    out.zigzag(time_ms);
    out.bytes(key);
    out.bytes(bytes);
    return value;
  }
  /// Points into `value`; nullopt where it is damaged, in whatever part.
  static std::optional<OutboxValue> decode(std::string_view value) {
    Decoder in(value);
    OutboxValue decoded;
    decoded.time_ms = in.zigzag();
    decoded.key = in.bytes();
    decoded.bytes = in.bytes();
    if (!in.finished()) return std::nullopt;
    return decoded;
  }
};

}  // namespace sirenfeed::features
