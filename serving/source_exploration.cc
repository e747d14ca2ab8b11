#include "serving/source.h"

namespace sirenfeed::serving {

namespace {

/// Any living item, so that nothing stays unknown for ever.
class ExplorationSource final : public Source {
 public:
  [[nodiscard]] std::string_view name() const override { return "exploration"; }

  [[nodiscard]] std::vector<SourcedItem> run_source(const FeedContext& context) const override {
    std::vector<SourcedItem> items;
    const std::size_t limit = context.config.sources.exploration_max * context.widen;
    for (const Key item : context.features.random(limit, context.seed, context.now_ms)) {
      items.push_back({item});
    }
    return items;
  }
};

}  // namespace

std::unique_ptr<const Source> make_exploration_source() {
  return std::make_unique<ExplorationSource>();
}

}  // namespace sirenfeed::serving
