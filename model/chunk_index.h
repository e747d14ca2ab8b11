#pragma once
// The integers of a chunk: which tokens stand where, and the distinct keys, times and meanings (tag
// set and segment) among them, so that each is looked up or evaluated once.
//
// Token rows are stacked: the histories of all slates (oldest first, cut to the newest L), then the
// candidates of all slates.
#include <cstdint>
#include <span>
#include <vector>

#include "model/key_index.h"
#include "model/model.h"
#include "model/slate.h"

namespace sirenfeed::model {

struct SlateRange {
  std::size_t history_begin = 0;  // token row
  std::size_t history_count = 0;
  std::size_t candidate_begin = 0;  // token row
  std::size_t candidate_count = 0;
};

struct Token {
  std::uint32_t item = kNoRow;    // number in items, kNoRow without an item
  std::uint32_t author = 0;       // number in authors (key 0 = none)
  std::uint32_t tags_begin = 0;   // distinct tags: tag_numbers[tags_begin … tags_end)
  std::uint32_t tags_end = 0;     // never empty: without tags, the number of key 0
  std::uint32_t time = 0;         // number in times
  std::uint32_t meaning = 0;      // number in meanings
  std::uint32_t position = 0;     // p, newer tokens: 0 for candidates
  std::uint32_t action_bits = 0;  // with the none bit; 0 for candidates
};

/// A distinct (tags, segment), by a token that has it; where the discovery variant reads them,
/// distinct in author and surface too.
struct Meaning {
  std::uint32_t token = 0;
  std::uint32_t segment = kNoRow;  // number in segments
  std::uint32_t surface = kNoRow;  // number in surfaces; kNoRow outside the discovery variant
};

class ChunkIndex {
 public:
  /// `position_origin` is added to every token's p, candidates included, which changes no score:
  /// rotation and biases see differences of p only. For the test that says so; forward only.
  void build(const ModelConfig& config, std::span<const Slate* const> chunk,
             std::uint32_t position_origin = 0);

  [[nodiscard]] std::size_t rows() const { return tokens.size(); }
  [[nodiscard]] std::size_t candidate_rows() const { return tokens.size() - history_rows; }
  [[nodiscard]] std::span<const std::uint32_t> tags_of(const Token& token) const {
    return std::span(tag_numbers).subspan(token.tags_begin, token.tags_end - token.tags_begin);
  }
  /// Whether the tag numbers are those of an item without tags.
  [[nodiscard]] bool without_tags(const Token& token) const {
    return tags.keys()[tag_numbers[token.tags_begin]] == kNoKey;
  }

  std::vector<SlateRange> slates;
  std::size_t history_rows = 0;
  std::uint32_t position_max = 0;
  std::vector<Token> tokens;
  std::vector<std::uint32_t> tag_numbers;
  std::vector<Meaning> meanings;
  KeyIndex items;
  KeyIndex tags;  // kNoKey among them where an item has no tags
  KeyIndex authors;
  KeyIndex segments;
  KeyIndex surfaces;  // only in the discovery variant
  KeyIndex times;     // the int64 with the same bits, kUnknownTime among them

 private:
  void add_item(const Slate& slate, const ItemRef& item, Token& token);
  void add_meaning(std::uint32_t row, std::uint32_t segment, Key surface);

  bool all_signals_ = false;  // author and surface have a meaning
  KeyIndex meaning_hashes_;
  std::vector<std::uint32_t> tag_last_row_;  // by tag number: row + 1 that used it last
};

}  // namespace sirenfeed::model
