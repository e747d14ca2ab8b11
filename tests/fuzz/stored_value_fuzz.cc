// Any bytes as a stored value of the state: every decoder either refuses them or gives something
// that is written and read again as the same bytes.
#include <example.pb.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "features/action_types.h"
#include "features/decayed_counter.h"
#include "features/item_side.h"
#include "features/partition_state.h"
#include "features/residual_counter.h"
#include "features/served_inputs.h"
#include "features/user_state.h"

using namespace sirenfeed;
using namespace sirenfeed::features;

namespace {

/// `decode` of bytes, `encode` of what it gave: a second round changes nothing.
template <class Decode, class Encode>
void check(std::string_view value, const Decode& decode, const Encode& encode) {
  const auto first = decode(value);
  if (!first) return;
  const std::string written = encode(*first);
  if (written.empty()) return;  // an empty section: it has no value
  const auto second = decode(written);
  SF_CHECK(second.has_value());
  SF_CHECK(encode(*second) == written);
}

template <class Counter>
void check_counter(std::string_view value) {
  check(
      value,
      [](std::string_view bytes) -> base::Result<Counter> {
        Decoder in(bytes);
        Counter counter;
        counter.decode(in);
        if (!in.finished()) return base::fail(base::ErrorCode::kCorrupt, "no counter");
        return counter;
      },
      [](const Counter& counter) {
        std::string out;
        Encoder encoder(out);
        counter.encode(encoder);
        return out;
      });
}

struct HeadOfUser {
  UserState state;
  bool external = false;
};

void check_head(std::string_view value) {
  check(
      value,
      [](std::string_view bytes) -> base::Result<HeadOfUser> {
        HeadOfUser head;
        SF_TRY(head.state.decode_head(bytes, head.external));
        return head;
      },
      [](const HeadOfUser& head) { return head.state.encode_head(head.external); });
}

void check_section(std::size_t section, std::string_view value) {
  check(
      value,
      [section](std::string_view bytes) -> base::Result<UserState> {
        UserState state;
        SF_TRY(state.decode_section(section, bytes));
        return state;
      },
      [section](const UserState& state) { return state.encode_section(section); });
}

void check_meta(std::string_view value) {
  PartitionState first;
  if (!first.decode_meta(value)) return;
  const std::string written = first.encode_meta();
  PartitionState second;
  SF_CHECK(second.decode_meta(written).has_value());
  SF_CHECK(second.encode_meta() == written);
}

void check_one(std::uint8_t choice, std::string_view value) {
  switch (choice % 8) {
    case 0:
      return check_head(value);
    case 1:
      return check_section(choice / 8 % kUserSections, value);
    case 2:
      return check(value, decode_catalog_item, encode_catalog_item);
    case 3:
      return check(value, InputPosition::decode,
                   [](const InputPosition& position) { return position.encode(); });
    case 4:
      check(value, HeldRequest::decode,
            [](const HeldRequest& request) { return request.encode(); });
      (void)decode_served_inputs(value);
      return check(value, decode_held, encode_held);
    case 5:
      return check(value, decode_labels, [](const Pending& pending) {
        return encode_labels(pending,
                             !pending.items.empty() && pending.items[0].bucket != kNoDuration);
      });
    case 6:
      check_meta(value);
      return check(value, ActionTypes::decode, [](const std::vector<std::string>& names) {
        return ActionTypes(names).encode();
      });
    default:
      check_counter<ItemCounter>(value);
      check_counter<UserCounter>(value);
      check_counter<ItemResiduals>(value);
      return check_counter<UserResiduals>(value);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  check_one(data[0], std::string_view(reinterpret_cast<const char*>(data) + 1, size - 1));
  return 0;
}
