#include "serving/source.h"

namespace sirenfeed::serving {

namespace {

/// What is clicked most now: half by the last hour's clicks, filled up with the last day's.
class PopularSource final : public Source {
 public:
  [[nodiscard]] std::string_view name() const override { return "popular"; }

  [[nodiscard]] std::vector<SourcedItem> run_source(const FeedContext& context) const override {
    const std::size_t limit = context.config.sources.popular_max * context.widen;
    std::vector<SourcedItem> items;
    std::unordered_set<Key> known;
    const auto add = [&](features::PopularSpan span, std::size_t most) {
      for (const Key item : context.features.popular(span, most, context.now_ms)) {
        if (items.size() < limit && known.insert(item).second) items.push_back({item});
      }
    };
    add(features::PopularSpan::kHour, (limit + 1) / 2);
    add(features::PopularSpan::kDay, limit);
    return items;
  }
};

}  // namespace

std::unique_ptr<const Source> make_popular_source() { return std::make_unique<PopularSource>(); }

}  // namespace sirenfeed::serving
