#pragma once
// From scored candidates to the slots of a feed: best utility first within the caps, now and then a
// random one.
#include <cstdint>
#include <string_view>
#include <vector>

#include "serving/candidate.h"

namespace sirenfeed::serving {

struct SelectedItem {
  std::size_t index = 0;  // into the scored candidates
  bool explored = false;  // drawn at random
  /// Chance of this item in this slot, given the candidates and the slots above: for ε-greedy over
  /// n allowed candidates ε/n, plus 1 − ε for the best one.
  double propensity = 1;
};

struct Selection {
  std::vector<SelectedItem> selected;  // slot by slot
  /// Why each scored candidate was not selected: "author_cap", "topic_cap", "ranked_lower"; empty
  /// where it was.
  std::vector<std::string_view> left_out;
};

/// Pure: the same candidates and seed give the same slots. Non-finite utilities sink; equal ones
/// are ordered by item id. A feed is shorter than `count` when the caps leave nothing.
class Selector {
 public:
  explicit Selector(const SelectorConfig& config) : config_(config) {}
  [[nodiscard]] Selection run_selector(const std::vector<ScoredCandidate>& scored,
                                       std::size_t count, std::uint64_t seed) const;

 private:
  const SelectorConfig config_;
};

/// Indexes, best first: utility, then id.
[[nodiscard]] std::vector<std::size_t> rank_order(const std::vector<ScoredCandidate>& scored);

}  // namespace sirenfeed::serving
