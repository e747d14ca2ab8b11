#pragma once
// Served requests of one partition that wait for the impressions that name them.
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "features/pending_set.h"
#include "features/state_keys.h"

namespace sirenfeed::features {

/// The store has all of them; in memory are where they lie, and the inputs of those that the batch
/// in the making has brought. Threads: the applying one.
class HeldRequests {
 public:
  using Place = PendingSet::Place;  // time and offset of the request

  void add(Place place, const IdHash& id);
  [[nodiscard]] std::optional<Place> find(const IdHash& id) const;
  [[nodiscard]] std::optional<Place> oldest() const;
  void remove(Place place);
  [[nodiscard]] std::size_t size() const { return by_place_.size(); }

  /// What the batch in the making has brought.
  struct Fresh {
    std::string user_id;
    std::string inputs;
  };
  std::map<Place, Fresh> fresh;
  [[nodiscard]] std::vector<Place> fresh_of(std::string_view user_id) const;

 private:
  std::map<Place, IdHash> by_place_;
  std::unordered_map<IdHash, Place, IdHashHash> by_id_;
};

/// Where a request lies in the store: request = version · u64 u64 id · text user_id.
struct HeldRequest {
  IdHash id;
  std::string user_id;

  [[nodiscard]] std::string encode() const;
  [[nodiscard]] static base::Result<HeldRequest> decode(std::string_view value);
};

}  // namespace sirenfeed::features
