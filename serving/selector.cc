#include "serving/selector.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <unordered_map>

namespace sirenfeed::serving {

namespace {

/// How many of each author and topic a feed has so far.
class Caps {
 public:
  Caps(const SelectorConfig& config, std::size_t count)
      : per_author_(config.per_author_max),
        per_topic_(std::max<std::size_t>(
            1, static_cast<std::size_t>(
                   std::ceil(config.per_topic_share * static_cast<double>(count))))) {}

  /// The cap that `candidate` would break; empty: none.
  [[nodiscard]] std::string_view broken_by(const Candidate& candidate) const {
    if (!candidate.info) return {};
    if (per_author_ > 0 && used(authors_, candidate.info->author) >= per_author_) {
      return "author_cap";
    }
    if (used(topics_, candidate.info->first_tag()) >= per_topic_) return "topic_cap";
    return {};
  }
  void count(const Candidate& candidate) {
    if (!candidate.info) return;
    ++authors_[candidate.info->author];
    ++topics_[candidate.info->first_tag()];
  }

 private:
  using Counts = std::unordered_map<Key, std::size_t>;
  /// Items without author or tag are no group of their own.
  static std::size_t used(const Counts& counts, Key key) {
    if (key == features::kNoKey) return 0;
    const auto found = counts.find(key);
    return found == counts.end() ? 0 : found->second;
  }
  const std::size_t per_author_;
  const std::size_t per_topic_;
  Counts authors_;
  Counts topics_;
};

}  // namespace

std::vector<std::size_t> rank_order(const std::vector<ScoredCandidate>& scored) {
  const auto key = [&](std::size_t i) {
    const double utility = scored[i].utility;
    return std::isfinite(utility) ? utility : -std::numeric_limits<double>::infinity();
  };
  std::vector<std::size_t> order(scored.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    if (key(a) != key(b)) return key(a) > key(b);
    return item_name(scored[a].candidate) < item_name(scored[b].candidate);
  });
  return order;
}

Selection Selector::run_selector(const std::vector<ScoredCandidate>& scored, std::size_t count,
                                 std::uint64_t seed) const {
  Selection selection;
  selection.left_out.assign(scored.size(), "ranked_lower");
  std::vector<std::size_t> waiting = rank_order(scored);  // may still be selected, best first
  std::mt19937_64 random(seed);
  Caps caps(config_, count);
  const double epsilon = config_.exploration_share;
  while (selection.selected.size() < count && !waiting.empty()) {
    const auto allowed = static_cast<double>(waiting.size());
    const bool explored =
        epsilon > 0 && std::uniform_real_distribution<double>(0, 1)(random) < epsilon;
    const std::size_t place =
        explored ? std::uniform_int_distribution<std::size_t>(0, waiting.size() - 1)(random) : 0;
    const std::size_t index = waiting[place];
    selection.selected.push_back(
        {.index = index,
         .explored = explored,
         .propensity = epsilon / allowed + (place == 0 ? 1.0 - epsilon : 0.0)});
    selection.left_out[index] = {};
    caps.count(scored[index].candidate);
    waiting.erase(waiting.begin() + static_cast<std::ptrdiff_t>(place));
    std::erase_if(waiting, [&](std::size_t other) {
      const std::string_view cap = caps.broken_by(scored[other].candidate);
      if (!cap.empty()) selection.left_out[other] = cap;
      return !cap.empty();
    });
  }
  return selection;
}

}  // namespace sirenfeed::serving
