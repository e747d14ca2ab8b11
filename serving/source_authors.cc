#include "serving/source.h"

namespace sirenfeed::serving {

namespace {

/// Newest items of the authors that the user clicked most, the same share for each.
class AuthorsSource final : public Source {
 public:
  [[nodiscard]] std::string_view name() const override { return "authors"; }

  [[nodiscard]] std::vector<SourcedItem> run_source(const FeedContext& context) const override {
    const SourcesConfig& config = context.config.sources;
    const std::vector<Key> followed = context.user.top_authors(config.user_authors_max);
    if (followed.empty()) return {};
    const std::size_t limit = config.authors_max * context.widen;
    const std::size_t share = (limit + followed.size() - 1) / followed.size();
    std::vector<SourcedItem> items;
    for (const Key author : followed) {
      for (const Key item : context.features.by_author(author, share, context.now_ms)) {
        if (items.size() < limit) items.push_back({item, author});
      }
    }
    return items;
  }
};

}  // namespace

std::unique_ptr<const Source> make_authors_source() { return std::make_unique<AuthorsSource>(); }

}  // namespace sirenfeed::serving
