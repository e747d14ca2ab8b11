#include "features/retained.h"

#include <example.pb.h>

#include "features/encode.h"
#include "features/partition_state.h"

namespace sirenfeed::features {
namespace {

constexpr std::uint8_t kRetainedVersion = 1;

}  // namespace

std::string encode_retained(const Retained& retained, bool extended) {
  std::string value;
  Encoder out(value);
  out.byte(kRetainedVersion);
  out.varint(retained.revision);
  value += encode_labels(retained.impression, extended);
  return value;
}

base::Result<Retained> decode_retained(std::string_view value) {
  Decoder in(value);
  Retained retained;
  const std::uint8_t version = in.byte();
  retained.revision = static_cast<std::uint32_t>(in.varint());
  if (!in.ok() || version != kRetainedVersion) {
    return base::fail(base::ErrorCode::kCorrupt,
                      "a stored impression that is kept for corrections cannot be decoded; "
                      "`sirenfeed rebuild` makes the state anew");
  }
  SF_ASSIGN(retained.impression, decode_labels(value.substr(value.size() - in.left())));
  return retained;
}

}  // namespace sirenfeed::features
