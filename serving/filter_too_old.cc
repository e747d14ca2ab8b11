#include "serving/filter.h"

namespace sirenfeed::serving {

namespace {

/// Published longer ago than age_max_ms; without a date, since its event.
class TooOldFilter final : public Filter {
 public:
  [[nodiscard]] std::string_view name() const override { return "too_old"; }

  [[nodiscard]] bool run_filter(const FeedContext& context,
                                const Candidate& candidate) const override {
    if (!candidate.info) return false;
    const base::UnixMs published =
        candidate.info->published_ms.value_or(candidate.info->updated_ms);
    return context.now_ms - published > context.config.filters.age_max_ms;
  }
};

}  // namespace

std::unique_ptr<const Filter> make_too_old_filter() { return std::make_unique<TooOldFilter>(); }

}  // namespace sirenfeed::serving
