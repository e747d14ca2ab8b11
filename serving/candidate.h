#pragma once
// What travels through the stages of a feed.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "features/catalog_item.h"
#include "features/feature_reader.h"
#include "serving/config.h"

namespace sirenfeed::serving {

using features::Key;

/// Everything that the stages may look at. Constant during one request.
struct FeedContext {
  const FeedConfig& config;
  const features::FeatureReader& features;
  const features::UserSnapshot& user;
  base::UnixMs now_ms = 0;
  std::string_view surface;
  const std::unordered_set<Key>& excluded;  // by the caller
  std::uint64_t seed = 0;                   // of this request's random choices
  std::size_t widen = 1;  // factor on the sources' maxima: they are asked again, wider, when the
                          // filters have left too little
};

struct Candidate {
  Key item = features::kNoKey;
  features::CatalogItemPtr info;  // null: never heard of
  std::string_view source;        // the first that gave it; a constant's bytes
  std::size_t source_rank = 0;    // its place there, from 0
  Key reason = features::kNoKey;  // the tag or author that the source followed
};

/// A candidate with its scores.
struct ScoredCandidate {
  Candidate candidate;
  double utility = 0;                // higher is shown first; NaN sinks
  std::vector<float> probabilities;  // by task of the model; empty without one
};

/// A candidate that left, and where: the name of the filter or the selector's reason.
struct RemovedCandidate {
  Candidate candidate;
  std::string_view reason;  // a constant's bytes
};

/// The id where the catalog has it, else the hash in hexadecimal.
[[nodiscard]] std::string item_name(const Candidate& candidate);

}  // namespace sirenfeed::serving
