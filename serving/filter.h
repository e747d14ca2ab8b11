#pragma once
// What may not be shown. Every candidate passes the filters of the list in order and leaves at the
// first that removes it, so it ends in exactly one bucket.
#include <memory>
#include <string_view>
#include <vector>

#include "serving/candidate.h"

namespace sirenfeed::serving {

/// Pure. Threads: any.
class Filter {
 public:
  virtual ~Filter() = default;
  /// The reason that removed candidates carry.
  [[nodiscard]] virtual std::string_view name() const = 0;
  /// True: the candidate leaves.
  [[nodiscard]] virtual bool run_filter(const FeedContext& context,
                                        const Candidate& candidate) const = 0;
};

using FilterList = std::vector<std::unique_ptr<const Filter>>;

[[nodiscard]] std::unique_ptr<const Filter> make_taken_down_filter();  // filter_taken_down.cc
[[nodiscard]] std::unique_ptr<const Filter> make_unknown_filter();     // filter_unknown.cc
[[nodiscard]] std::unique_ptr<const Filter> make_hidden_filter();      // filter_hidden.cc
[[nodiscard]] std::unique_ptr<const Filter> make_expired_filter();     // filter_expired.cc
[[nodiscard]] std::unique_ptr<const Filter> make_excluded_filter();    // filter_excluded.cc
[[nodiscard]] std::unique_ptr<const Filter>
make_blocked_author_filter();                                           // filter_blocked_author.cc
[[nodiscard]] std::unique_ptr<const Filter> make_blocked_tag_filter();  // filter_blocked_tag.cc
[[nodiscard]] std::unique_ptr<const Filter> make_seen_filter();         // filter_seen.cc
[[nodiscard]] std::unique_ptr<const Filter> make_too_old_filter();      // filter_too_old.cc

/// All that the configuration asks for.
[[nodiscard]] FilterList feed_filters(const FiltersConfig& config);
/// For a caller's own candidates: only what may not be shown to anybody.
[[nodiscard]] FilterList rank_filters();

struct Filtered {
  std::vector<Candidate> kept;
  std::vector<RemovedCandidate> removed;
};
/// Order is kept.
[[nodiscard]] Filtered filter(const FilterList& filters, const FeedContext& context,
                              std::vector<Candidate> candidates);

}  // namespace sirenfeed::serving
