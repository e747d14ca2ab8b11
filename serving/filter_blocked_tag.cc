#include <algorithm>

#include "serving/filter.h"

namespace sirenfeed::serving {

namespace {

/// The user blocked one of its tags.
class BlockedTagFilter final : public Filter {
 public:
  [[nodiscard]] std::string_view name() const override { return "blocked_tag"; }

  [[nodiscard]] bool run_filter(const FeedContext& context,
                                const Candidate& candidate) const override {
    const auto& blocked = context.user.blocked_tags;
    if (!candidate.info || blocked.empty()) return false;
    return std::any_of(
        candidate.info->tag_keys.begin(), candidate.info->tag_keys.end(),
        [&](Key tag) { return std::binary_search(blocked.begin(), blocked.end(), tag); });
  }
};

}  // namespace

std::unique_ptr<const Filter> make_blocked_tag_filter() {
  return std::make_unique<BlockedTagFilter>();
}

}  // namespace sirenfeed::serving
