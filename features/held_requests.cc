#include "features/held_requests.h"

#include "features/encode.h"

namespace sirenfeed::features {
namespace {

constexpr std::uint8_t kVersion = 1;

}  // namespace

void HeldRequests::add(Place place, const IdHash& id) {
  by_place_.insert_or_assign(place, id);
  by_id_.insert_or_assign(id, place);
}

std::optional<HeldRequests::Place> HeldRequests::find(const IdHash& id) const {
  const auto it = by_id_.find(id);
  if (it == by_id_.end()) return std::nullopt;
  return it->second;
}

std::optional<HeldRequests::Place> HeldRequests::oldest() const {
  if (by_place_.empty()) return std::nullopt;
  return by_place_.begin()->first;
}

void HeldRequests::remove(Place place) {
  const auto it = by_place_.find(place);
  if (it == by_place_.end()) return;
  by_id_.erase(it->second);
  by_place_.erase(it);
  fresh.erase(place);
}

std::vector<HeldRequests::Place> HeldRequests::fresh_of(std::string_view user_id) const {
  std::vector<Place> places;
  for (const auto& [place, request] : fresh) {
    if (request.user_id == user_id) places.push_back(place);
  }
  return places;
}

std::string HeldRequest::encode() const {
  std::string value;
  Encoder out(value);
  out.byte(kVersion);
  out.fixed(id.high);
  out.fixed(id.low);
  out.bytes(user_id);
  return value;
}

base::Result<HeldRequest> HeldRequest::decode(std::string_view value) {
  Decoder in(value);
  HeldRequest request;
  const std::uint8_t version = in.byte();
  request.id.high = in.fixed<std::uint64_t>();
  request.id.low = in.fixed<std::uint64_t>();
  request.user_id = in.bytes();
  if (version == kVersion && in.finished()) return request;
  return base::fail(base::ErrorCode::kCorrupt,
                    "a stored request cannot be decoded; `sirenfeed rebuild` makes the state anew");
}

}  // namespace sirenfeed::features
