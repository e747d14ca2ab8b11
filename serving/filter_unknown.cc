#include "serving/filter.h"

namespace sirenfeed::serving {

namespace {

/// Shown before its event arrived: there is nothing to show it with.
class UnknownFilter final : public Filter {
 public:
  [[nodiscard]] std::string_view name() const override { return "unknown"; }

  [[nodiscard]] bool run_filter(const FeedContext&, const Candidate& candidate) const override {
    return !candidate.info || !candidate.info->known;
  }
};

}  // namespace

std::unique_ptr<const Filter> make_unknown_filter() { return std::make_unique<UnknownFilter>(); }

}  // namespace sirenfeed::serving
