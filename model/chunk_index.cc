#include "model/chunk_index.h"

#include <algorithm>

namespace sirenfeed::model {

void ChunkIndex::build(const ModelConfig& config, std::span<const Slate* const> chunk,
                       std::uint32_t position_origin) {
  for (KeyIndex* index :
       {&items, &tags, &authors, &segments, &surfaces, &times, &meaning_hashes_}) {
    index->clear();
  }
  slates.clear();
  tokens.clear();
  tag_numbers.clear();
  meanings.clear();
  tag_last_row_.clear();
  position_max = position_origin;
  all_signals_ = config.variant == Variant::kSirenDiscovery;

  for (const Slate* slate : chunk) {
    const HistoryWindow window = history_window(config, *slate);
    slates.push_back({tokens.size(), window.count, 0, slate->candidates.size()});
    const std::uint32_t segment =
        slate->segment == kNoKey ? kNoRow : segments.find_or_add(slate->segment);
    auto newer = static_cast<std::uint32_t>(window.count);
    for (const HistoryToken& from : std::span(slate->history).subspan(window.begin)) {
      if (!is_history_token(config, from)) continue;
      Token& token = tokens.emplace_back();
      add_item(*slate, from.item, token);
      token.time = times.find_or_add(static_cast<std::uint64_t>(from.time_ms));
      token.position = position_origin + newer--;
      token.action_bits = action_bits_with_none(from.action_bits, config.n_actions());
      add_meaning(static_cast<std::uint32_t>(tokens.size() - 1), segment, from.surface);
    }
    position_max =
        std::max(position_max, position_origin + static_cast<std::uint32_t>(window.count));
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
      token.position = position_origin;
      add_meaning(static_cast<std::uint32_t>(tokens.size() - 1), segment, slate.surface);
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

void ChunkIndex::add_meaning(std::uint32_t row, std::uint32_t segment, Key surface_key) {
  Token& token = tokens[row];
  const std::span<const std::uint32_t> own = tags_of(token);
  std::uint64_t hash = segment;
  for (const std::uint32_t number : own) hash = (hash ^ number) * 0xBF58476D1CE4E5B9ULL + 1;
  std::uint32_t surface = kNoRow;
  if (all_signals_) {
    if (surface_key != kNoKey) surface = surfaces.find_or_add(surface_key);
    for (const std::uint32_t number : {token.author, surface}) {
      hash = (hash ^ number) * 0x94D049BB133111EBULL + 1;
    }
  }
  for (;; ++hash) {
    const std::uint32_t number = meaning_hashes_.find_or_add(hash);
    if (number == meanings.size()) meanings.push_back({row, segment, surface});
    const Meaning& meaning = meanings[number];
    const Token& known = tokens[meaning.token];
    const std::span<const std::uint32_t> theirs = tags_of(known);
    if (meaning.segment == segment && meaning.surface == surface &&
        (!all_signals_ || known.author == token.author) &&
        std::equal(own.begin(), own.end(), theirs.begin(), theirs.end())) {
      token.meaning = number;
      return;
    }
  }
}

}  // namespace sirenfeed::model
