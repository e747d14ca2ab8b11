#pragma once
// Where candidates come from. A feed asks each source of its list; the first source that gives an
// item keeps it.
#include <memory>
#include <string_view>
#include <vector>

#include "serving/candidate.h"

namespace sirenfeed::serving {

struct SourcedItem {
  Key item = features::kNoKey;
  Key reason = features::kNoKey;  // the tag or author that led to it
};

/// Pure: the same context and state give the same items. Threads: any.
class Source {
 public:
  virtual ~Source() = default;
  [[nodiscard]] virtual std::string_view name() const = 0;
  /// At most its configured maximum (× context.widen), best first.
  [[nodiscard]] virtual std::vector<SourcedItem> run_source(const FeedContext& context) const = 0;
};

using SourceList = std::vector<std::unique_ptr<const Source>>;

[[nodiscard]] std::unique_ptr<const Source> make_topics_source();       // source_topics.cc
[[nodiscard]] std::unique_ptr<const Source> make_authors_source();      // source_authors.cc
[[nodiscard]] std::unique_ptr<const Source> make_popular_source();      // source_popular.cc
[[nodiscard]] std::unique_ptr<const Source> make_fresh_source();        // source_fresh.cc
[[nodiscard]] std::unique_ptr<const Source> make_exploration_source();  // source_exploration.cc

/// All of them, the most telling first: an item that several give is shown with that one's name.
[[nodiscard]] SourceList default_sources();

/// What one source did.
struct SourceCount {
  std::string_view name;
  std::size_t given = 0;
  std::int64_t took_us = 0;
};

struct Gathered {
  std::vector<Candidate> candidates;  // distinct, in the order of sources
  std::vector<SourceCount> counts;    // one a source
};

/// Asks every source; times and counts it; keeps the first of equal items.
[[nodiscard]] Gathered gather(const SourceList& sources, const FeedContext& context);

}  // namespace sirenfeed::serving
