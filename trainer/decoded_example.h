#pragma once
// One example as the trainer works with it.
#include <compare>
#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"
#include "ingest/topic.h"
#include "model/slate.h"

namespace sirenfeed::trainer {

/// Which impression, and which part of it, an example is about (STREAM.md, Examples).
struct ExampleIdentity {
  ingest::Partition impression_partition = 0;
  ingest::Offset impression_offset = 0;
  std::uint32_t part = 0;
  std::uint32_t revision = 0;
  friend auto operator<=>(const ExampleIdentity&, const ExampleIdentity&) = default;
};

struct DecodedExample {
  ExampleIdentity identity;
  // Order of learning within the examples partition.
  ingest::Partition partition = 0;
  std::uint64_t epoch = 0;
  std::uint64_t sequence = 0;

  bool erased = false;  // counts for the order, and has nothing of what follows

  std::string user_id;
  base::UnixMs closed_ms = 0;
  std::vector<std::string> item_ids;  // of the candidates
  model::Slate slate;                 // slate.time_ms is the exposure's time
  model::SlateLabels labels;          // [candidates, K]; weight 0 where a cell is masked
};

}  // namespace sirenfeed::trainer
