#include "model/chunk_index.h"

#include <algorithm>

namespace sirenfeed::model {

void ChunkIndex::build(const ModelConfig& config, std::span<const Slate* const> chunk) {
  for (KeyIndex* index : {&items, &tags, &authors, &segments, &times, &meaning_hashes_}) {
    index->clear();
  }
  slates.clear();
  tokens.clear();
  tag_numbers.clear();
  meanings.clear();
  tag_last_row_.clear();
  position_max = 0;
  const auto history_max = static_cast<std::size_t>(config.history_max);

  for (const Slate* slate : chunk) {
    const std::size_t count = std::min(slate->history.size(), history_max);
    slates.push_back({tokens.size(), count, 0, slate->candidates.size()});
    const std::uint32_t segment =
        slate->segment == kNoKey ? kNoRow : segments.find_or_add(slate->segment);
    for (std::size_t i = 0; i < count; ++i) {
      const HistoryToken& from = slate->history[slate->history.size() - count + i];
      Token& token = tokens.emplace_back();
      add_item(*slate, from.item, token);
      token.time = times.find_or_add(static_cast<std::uint64_t>(from.time_ms));
      token.position = static_cast<std::uint32_t>(count - i);
      token.action_bits = action_bits_with_none(from.action_bits, config.n_actions());
      add_meaning(static_cast<std::uint32_t>(tokens.size() - 1), segment);
    }
    position_max = std::max(position_max, static_cast<std::uint32_t>(count));
  }
  history_rows = tokens.size();

  for (std::size_t s = 0; s < chunk.size(); ++s) {
    const Slate& slate = *chunk[s];
    slates[s].candidate_begin = tokens.size();
    const std::uint32_t segment =
        slate.segment == kNoKey ? kNoRow : segments.find_or_add(slate.segment);
    const std::uint32_t time = times.find_or_add(static_cast<std::uint64_t>(slate.time_ms));
    for (const ItemRef& candidate : slate.candidates) {
      Token& token = tokens.emplace_back();
      add_item(slate, candidate, token);
      token.time = time;
      add_meaning(static_cast<std::uint32_t>(tokens.size() - 1), segment);
    }
  }
}

void ChunkIndex::add_item(const Slate& slate, const ItemRef& item, Token& token) {
  if (item.item != kNoKey) token.item = items.find_or_add(item.item);
  token.author = authors.find_or_add(item.author);
  token.tags_begin = static_cast<std::uint32_t>(tag_numbers.size());
  const auto stamp = static_cast<std::uint32_t>(tokens.size());  // this row + 1
  for (const Key tag : slate.tags_of(item)) {
    if (tag == kNoKey) continue;
    const std::uint32_t number = tags.find_or_add(tag);
    if (number >= tag_last_row_.size()) tag_last_row_.resize(number + 1, 0);
    if (tag_last_row_[number] == stamp) continue;  // repeated on this item
    tag_last_row_[number] = stamp;
    tag_numbers.push_back(number);
  }
  if (tag_numbers.size() == token.tags_begin) tag_numbers.push_back(tags.find_or_add(kNoKey));
  token.tags_end = static_cast<std::uint32_t>(tag_numbers.size());
}

void ChunkIndex::add_meaning(std::uint32_t row, std::uint32_t segment) {
  Token& token = tokens[row];
  const std::span<const std::uint32_t> own = tags_of(token);
  std::uint64_t hash = segment;
  for (const std::uint32_t number : own) hash = (hash ^ number) * 0xBF58476D1CE4E5B9ULL + 1;
  for (;; ++hash) {
    const std::uint32_t number = meaning_hashes_.find_or_add(hash);
    if (number == meanings.size()) meanings.push_back({row, segment});
    const Meaning& meaning = meanings[number];
    const std::span<const std::uint32_t> theirs = tags_of(tokens[meaning.token]);
    if (meaning.segment == segment &&
        std::equal(own.begin(), own.end(), theirs.begin(), theirs.end())) {
      token.meaning = number;
      return;
    }
  }
}

}  // namespace sirenfeed::model
