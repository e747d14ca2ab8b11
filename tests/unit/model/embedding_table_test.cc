#include "model/embedding_table.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace sirenfeed::model {
namespace {

using Table = BasicEmbeddingTable<float>;

TEST(EmbeddingTable, BehavesLikeAMapUnderRandomOperations) {
  constexpr std::uint64_t kSeed = 5;
  std::mt19937_64 random(kSeed);
  Table table("embedding.item", 3, {StartKind::kNormal, 1.0}, 9);
  std::map<Key, std::vector<float>> expected;
  for (int step = 0; step < 20000; ++step) {
    // Keys from a small range of high and low bits, so that probe chains form and break.
    const Key key = (random() % 40) << (random() % 2 == 0 ? 0U : 58U);
    if (random() % 3 == 0) {
      const bool had = expected.erase(key) > 0;
      ASSERT_EQ(table.erase(key) != kNoRow, had);
    } else {
      const std::span<float> row = table.row_at(table.find_or_create(key));
      auto [at, made] = expected.try_emplace(key, 3);
      if (made) fill_start({StartKind::kNormal, 1.0}, 9, "embedding.item", key, at->second);
      row[1] += 1.0F;
      at->second[1] += 1.0F;
    }
    ASSERT_EQ(table.size(), expected.size()) << "step " << step << " seed " << kSeed;
  }
  ASSERT_FALSE(expected.empty());
  for (const auto& [key, row] : expected) {
    const std::uint32_t index = table.index_of(key);
    ASSERT_NE(index, kNoRow);
    ASSERT_EQ(table.key_at(index), key);
    const std::span<const float> actual = std::as_const(table).row_at(index);
    ASSERT_EQ(std::vector<float>(actual.begin(), actual.end()), row);
  }
}

TEST(EmbeddingTable, AnAbsentRowHasItsStart) {
  Table table("embedding.tag", 4, {StartKind::kNormal, 0.5}, 9);
  std::vector<float> absent(4);
  table.copy_row(77, absent);
  EXPECT_EQ(table.index_of(77), kNoRow);
  table.row_at(table.find_or_create(77))[0] = 3.0F;
  std::vector<float> present(4);
  table.copy_row(77, present);
  EXPECT_NE(present, absent);
  table.erase(77);  // expired: back to the start
  table.copy_row(77, present);
  EXPECT_EQ(present, absent);
}

TEST(EmbeddingTable, EraseReportsWhichRowMoved) {
  Table table("embedding.item", 1, {}, 1);
  for (Key key = 1; key <= 3; ++key)
    table.row_at(table.find_or_create(key))[0] = static_cast<float>(key);
  EXPECT_EQ(table.erase(1), 2U);  // row 2, of key 3, is now row 0
  EXPECT_EQ(table.index_of(3), 0U);
  EXPECT_EQ(table.row_at(0)[0], 3.0F);
  EXPECT_EQ(table.erase(2), 1U);  // was last itself
  EXPECT_EQ(table.erase(2), kNoRow);
}

TEST(EmbeddingTable, SortsKeysAsSignedIntegers) {
  Table table("embedding.item", 1, {}, 1);
  for (const Key key : {Key{5}, ~Key{0}, Key{1}, Key{1} << 63U}) table.find_or_create(key);
  std::vector<std::int64_t> keys;
  for (const std::uint32_t index : table.sorted_indices()) {
    keys.push_back(static_cast<std::int64_t>(table.key_at(index)));
  }
  EXPECT_EQ(keys, (std::vector<std::int64_t>{INT64_MIN, -1, 1, 5}));
}

}  // namespace
}  // namespace sirenfeed::model
