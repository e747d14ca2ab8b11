#include "serving/source.h"

namespace sirenfeed::serving {

namespace {

/// The newest items: nothing is known of them yet but what they are.
class FreshSource final : public Source {
 public:
  [[nodiscard]] std::string_view name() const override { return "fresh"; }

  [[nodiscard]] std::vector<SourcedItem> run_source(const FeedContext& context) const override {
    std::vector<SourcedItem> items;
    const std::size_t limit = context.config.sources.fresh_max * context.widen;
    for (const Key item : context.features.fresh(limit, context.now_ms)) items.push_back({item});
    return items;
  }
};

}  // namespace

std::unique_ptr<const Source> make_fresh_source() { return std::make_unique<FreshSource>(); }

}  // namespace sirenfeed::serving
