#include "serving/filter.h"

namespace sirenfeed::serving {

namespace {

/// A takedown holds on every path, whatever else is known of the item.
class TakenDownFilter final : public Filter {
 public:
  [[nodiscard]] std::string_view name() const override { return "taken_down"; }

  [[nodiscard]] bool run_filter(const FeedContext&, const Candidate& candidate) const override {
    return candidate.info && candidate.info->taken_down();
  }
};

}  // namespace

std::unique_ptr<const Filter> make_taken_down_filter() {
  return std::make_unique<TakenDownFilter>();
}

}  // namespace sirenfeed::serving
