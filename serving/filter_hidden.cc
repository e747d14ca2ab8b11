#include "serving/filter.h"

namespace sirenfeed::serving {

namespace {

/// The publisher holds it back.
class HiddenFilter final : public Filter {
 public:
  [[nodiscard]] std::string_view name() const override { return "hidden"; }

  [[nodiscard]] bool run_filter(const FeedContext&, const Candidate& candidate) const override {
    return candidate.info && candidate.info->hidden;
  }
};

}  // namespace

std::unique_ptr<const Filter> make_hidden_filter() { return std::make_unique<HiddenFilter>(); }

}  // namespace sirenfeed::serving
