#pragma once
// Closed impressions that a late action may still correct.
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "base/result.h"
#include "features/pending_set.h"

namespace sirenfeed::features {

/// One of them: its keys and the actions that it got, also those after its window.
struct Retained {
  Pending impression;          // without the example
  std::uint32_t revision = 0;  // the newest that was made
  std::string example;         // to be stored with the batch; empty: the store has it
  bool dirty = false;
};

/// Those of one partition. The store has all of them; in memory are where they lie, and what the
/// batch in the making has closed or read.
struct RetainedSet {
  std::set<PendingSet::Place> places;
  std::map<PendingSet::Place, Retained> loaded;
};

/// retained = version · v revision · labels.
[[nodiscard]] std::string encode_retained(const Retained& retained, bool extended);
[[nodiscard]] base::Result<Retained> decode_retained(std::string_view value);

}  // namespace sirenfeed::features
