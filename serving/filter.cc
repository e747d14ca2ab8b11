#include "serving/filter.h"

#include <algorithm>

namespace sirenfeed::serving {

FilterList feed_filters(const FiltersConfig& config) {
  FilterList filters;
  filters.push_back(make_taken_down_filter());
  filters.push_back(make_unknown_filter());
  filters.push_back(make_hidden_filter());
  filters.push_back(make_expired_filter());
  filters.push_back(make_excluded_filter());
  filters.push_back(make_blocked_author_filter());
  filters.push_back(make_blocked_tag_filter());
  if (config.seen) filters.push_back(make_seen_filter());
  if (config.age_max_ms > 0) filters.push_back(make_too_old_filter());
  return filters;
}

FilterList rank_filters() {
  FilterList filters;
  filters.push_back(make_taken_down_filter());
  filters.push_back(make_hidden_filter());
  filters.push_back(make_expired_filter());
  return filters;
}

Filtered filter(const FilterList& filters, const FeedContext& context,
                std::vector<Candidate> candidates) {
  Filtered filtered;
  filtered.kept.reserve(candidates.size());
  for (Candidate& candidate : candidates) {
    const auto remover = std::find_if(filters.begin(), filters.end(), [&](const auto& each) {
      return each->run_filter(context, candidate);
    });
    if (remover == filters.end()) {
      filtered.kept.push_back(std::move(candidate));
    } else {
      filtered.removed.push_back({std::move(candidate), (*remover)->name()});
    }
  }
  return filtered;
}

}  // namespace sirenfeed::serving
