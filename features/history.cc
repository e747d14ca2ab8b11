#include "features/history.h"

namespace sirenfeed::features {

ActionBits::ActionBits(std::span<const ActionType> types) {
  for (std::size_t a = 0; a < types.size(); ++a) bit_.at(types[a]) |= 1U << a;
}

std::uint32_t ActionBits::known_before(const SequenceEntry& entry, base::UnixMs t) const {
  std::uint32_t bits = 0;
  for (const ActionMark& mark : entry.actions) {
    if (mark.time_ms < t) bits |= bit_[mark.type];
  }
  return bits;
}

History make_history(const UserState& user, const ItemSide& item_side, const ActionBits& bits,
                     base::UnixMs t, const ExampleConfig& config) {
  const auto is_token = [&](const SequenceEntry& entry) {
    return entry.exposed && (!config.history_actions_only || bits.known_before(entry, t) != 0);
  };
  // Backwards to the oldest entry that is kept, then forwards.
  std::size_t tokens = 0;
  auto begin = user.sequence.size();
  auto end = begin;
  while (end > 0 && user.sequence[end - 1].time_ms >= t) --end;
  begin = end;
  while (begin > 0 && tokens < config.history_max) {
    tokens += is_token(user.sequence[--begin]) ? 1 : 0;
  }

  History history;
  history.tokens.reserve(tokens);
  history.tags.reserve(2 * tokens);
  for (std::size_t i = begin; i < end; ++i) {
    const SequenceEntry& entry = user.sequence[i];
    if (!is_token(entry)) continue;
    HistoryToken token;
    token.item = entry.item;
    token.time_ms = entry.time_ms;
    token.action_bits = bits.known_before(entry, t);
    token.surface = entry.surface;
    token.tags_begin = static_cast<std::uint32_t>(history.tags.size());
    item_side.with_item(entry.item, [&](const CatalogItem* item) {
      if (item == nullptr) return;
      token.author = item->author;
      history.tags.insert(history.tags.end(), item->tag_keys.begin(), item->tag_keys.end());
    });
    token.tags_end = static_cast<std::uint32_t>(history.tags.size());
    history.tokens.push_back(token);
  }
  return history;
}

}  // namespace sirenfeed::features
