#include "serving/source.h"

namespace sirenfeed::serving {

namespace {

/// Newest items of the tags that the user clicked most, the same share for each tag.
class TopicsSource final : public Source {
 public:
  [[nodiscard]] std::string_view name() const override { return "topics"; }

  [[nodiscard]] std::vector<SourcedItem> run_source(const FeedContext& context) const override {
    const SourcesConfig& config = context.config.sources;
    const std::vector<Key> followed = context.user.top_tags(config.user_topics_max);
    if (followed.empty()) return {};
    const std::size_t limit = config.topics_max * context.widen;
    const std::size_t share = (limit + followed.size() - 1) / followed.size();
    std::vector<SourcedItem> items;
    for (const Key tag : followed) {
      for (const Key item : context.features.by_tag(tag, share, context.now_ms)) {
        if (items.size() < limit) items.push_back({item, tag});
      }
    }
    return items;
  }
};

}  // namespace

std::unique_ptr<const Source> make_topics_source() { return std::make_unique<TopicsSource>(); }

}  // namespace sirenfeed::serving
