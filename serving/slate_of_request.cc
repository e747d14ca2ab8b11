#include "base/hash.h"
#include "serving/scorer.h"

namespace sirenfeed::serving {

model::Slate make_slate(const features::UserSnapshot& user, std::string_view surface,
                        base::UnixMs now_ms, std::span<const Candidate> candidates,
                        std::span<const float> context) {
  model::Slate slate;
  slate.time_ms = now_ms;
  slate.segment = user.segment_key;
  slate.user = base::xxh3_64(user.user_id);
  if (!surface.empty()) slate.surface = base::xxh3_64(surface);
  slate.tags = user.history.tags;
  slate.history.reserve(user.history.tokens.size());
  for (const features::HistoryToken& token : user.history.tokens) {
    slate.history.push_back({.item = {.item = token.item,
                                      .author = token.author,
                                      .tags_begin = token.tags_begin,
                                      .tags_end = token.tags_end},
                             .time_ms = token.time_ms,
                             .action_bits = token.action_bits,
                             .surface = token.surface});
  }
  slate.candidates.reserve(candidates.size());
  for (const Candidate& candidate : candidates) {
    model::ItemRef item{.item = candidate.item,
                        .author = model::kNoKey,
                        .tags_begin = static_cast<std::uint32_t>(slate.tags.size()),
                        .tags_end = static_cast<std::uint32_t>(slate.tags.size())};
    if (candidate.info) {
      item.author = candidate.info->author;
      slate.tags.insert(slate.tags.end(), candidate.info->tag_keys.begin(),
                        candidate.info->tag_keys.end());
      item.tags_end = static_cast<std::uint32_t>(slate.tags.size());
    }
    slate.candidates.push_back(item);
  }
  slate.context.assign(context.begin(), context.end());
  return slate;
}

}  // namespace sirenfeed::serving
