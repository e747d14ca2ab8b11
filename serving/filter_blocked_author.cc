#include <algorithm>

#include "serving/filter.h"

namespace sirenfeed::serving {

namespace {

/// The user blocked its author.
class BlockedAuthorFilter final : public Filter {
 public:
  [[nodiscard]] std::string_view name() const override { return "blocked_author"; }

  [[nodiscard]] bool run_filter(const FeedContext& context,
                                const Candidate& candidate) const override {
    const auto& blocked = context.user.blocked_authors;
    return candidate.info && candidate.info->author != features::kNoKey &&
           std::binary_search(blocked.begin(), blocked.end(), candidate.info->author);
  }
};

}  // namespace

std::unique_ptr<const Filter> make_blocked_author_filter() {
  return std::make_unique<BlockedAuthorFilter>();
}

}  // namespace sirenfeed::serving
