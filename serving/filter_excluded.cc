#include "serving/filter.h"

namespace sirenfeed::serving {

namespace {

/// The caller does not want it.
class ExcludedFilter final : public Filter {
 public:
  [[nodiscard]] std::string_view name() const override { return "excluded"; }

  [[nodiscard]] bool run_filter(const FeedContext& context,
                                const Candidate& candidate) const override {
    return context.excluded.contains(candidate.item);
  }
};

}  // namespace

std::unique_ptr<const Filter> make_excluded_filter() { return std::make_unique<ExcludedFilter>(); }

}  // namespace sirenfeed::serving
