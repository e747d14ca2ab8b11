#include "serving/filter.h"

namespace sirenfeed::serving {

namespace {

/// Its time is over at the time of the request.
class ExpiredFilter final : public Filter {
 public:
  [[nodiscard]] std::string_view name() const override { return "expired"; }

  [[nodiscard]] bool run_filter(const FeedContext& context,
                                const Candidate& candidate) const override {
    return candidate.info && candidate.info->expired(context.now_ms);
  }
};

}  // namespace

std::unique_ptr<const Filter> make_expired_filter() { return std::make_unique<ExpiredFilter>(); }

}  // namespace sirenfeed::serving
