#include "serving/source.h"

#include <chrono>

namespace sirenfeed::serving {

SourceList default_sources() {
  SourceList sources;
  sources.push_back(make_topics_source());
  sources.push_back(make_authors_source());
  sources.push_back(make_popular_source());
  sources.push_back(make_fresh_source());
  sources.push_back(make_exploration_source());
  return sources;
}

Gathered gather(const SourceList& sources, const FeedContext& context) {
  Gathered gathered;
  std::unordered_set<Key> known;
  for (const auto& source : sources) {
    const auto begin = std::chrono::steady_clock::now();
    const std::vector<SourcedItem> items = source->run_source(context);
    for (std::size_t rank = 0; rank < items.size(); ++rank) {
      if (!known.insert(items[rank].item).second) continue;
      gathered.candidates.push_back({.item = items[rank].item,
                                     .info = context.features.item(items[rank].item),
                                     .source = source->name(),
                                     .source_rank = rank,
                                     .reason = items[rank].reason});
    }
    const auto took = std::chrono::steady_clock::now() - begin;
    gathered.counts.push_back(
        {.name = source->name(),
         .given = items.size(),
         .took_us = std::chrono::duration_cast<std::chrono::microseconds>(took).count()});
  }
  return gathered;
}

}  // namespace sirenfeed::serving
