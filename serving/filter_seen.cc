#include "serving/filter.h"

namespace sirenfeed::serving {

namespace {

/// The user was shown it before.
class SeenFilter final : public Filter {
 public:
  [[nodiscard]] std::string_view name() const override { return "seen"; }

  [[nodiscard]] bool run_filter(const FeedContext& context,
                                const Candidate& candidate) const override {
    return context.user.seen(candidate.item);
  }
};

}  // namespace

std::unique_ptr<const Filter> make_seen_filter() { return std::make_unique<SeenFilter>(); }

}  // namespace sirenfeed::serving
