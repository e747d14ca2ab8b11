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

using Rows = std::map<Key, std::vector<float>>;

Rows rows_of(const Table& table) {
  Rows rows;
  for (std::uint32_t index = 0; index < table.size(); ++index) {
    const std::span<const float> row = table.row_at(index);
    rows[table.key_at(index)].assign(row.begin(), row.end());
  }
  return rows;
}

/// What a reader of `changes` makes of `rows`.
void apply(const Table& table, const TableChanges& changes, Rows& rows) {
  for (const Key key : changes.erased) ASSERT_EQ(rows.erase(key), 1U);
  for (const std::uint32_t index : changes.written) {
    const std::span<const float> row = table.row_at(index);
    rows[table.key_at(index)].assign(row.begin(), row.end());
  }
}

TEST(EmbeddingTable, CopiesStayAsTheyWereAndChangesLeadFromOneToTheNext) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  Table table("embedding.item", 3, {StartKind::kNormal, 1.0}, 9);
  Rows expected;
  std::vector<std::pair<Table, Rows>> copies;
  for (int step = 0; step < 300; ++step) {
    // Waves of growth and of decay, over enough rows for several pages and chapters.
    const std::uint64_t erasures = step / 60 % 2 == 0 ? 10 : 60;
    for (std::uint64_t n = random() % 300; n > 0; --n) {
      const Key key = random() % 9000;
      if (random() % 100 < erasures) {
        ASSERT_EQ(table.erase(key) != kNoRow, expected.erase(key) > 0);
        continue;
      }
      const std::span<float> row = table.row_at(table.find_or_create(key));
      auto [at, made] = expected.try_emplace(key, 3);
      if (made) fill_start({StartKind::kNormal, 1.0}, 9, "embedding.item", key, at->second);
      row[2] += 0.5F;
      at->second[2] += 0.5F;
    }
    if (random() % 3 == 0) copies.emplace_back(table, expected);
    if (copies.size() > 8) {
      copies.erase(copies.begin() + static_cast<std::ptrdiff_t>(random() % copies.size()));
    }
  }
  ASSERT_GT(expected.size(), 64U);
  ASSERT_EQ(rows_of(table), expected);
  copies.emplace_back(table, expected);
  for (std::size_t i = 0; i < copies.size(); ++i) {
    ASSERT_EQ(rows_of(copies[i].first), copies[i].second) << "copy " << i;
    for (const auto& [key, row] : copies[i].second) {
      ASSERT_EQ(copies[i].first.key_at(copies[i].first.index_of(key)), key);
    }
    if (i == 0) continue;
    Rows rows = copies[i - 1].second;
    apply(copies[i].first, copies[i].first.changes_since(copies[i - 1].first), rows);
    ASSERT_EQ(rows, copies[i].second) << "copy " << i;
  }
  // A copy is written like any other, and its source does not see it.
  copies[0].first.row_at(0)[0] = 77;
  copies[0].first.erase(copies[0].first.key_at(1));
  ASSERT_EQ(rows_of(table), expected);
}

TEST(EmbeddingTable, ChangesNameNothingThatStayedAsItWas) {
  Table table("embedding.item", 4, {}, 1);
  for (Key key = 1; key <= 10'000; ++key) table.find_or_create(key);
  const Table before = table;
  EXPECT_TRUE(table.changes_since(before).written.empty());
  table.row_at(table.index_of(5000))[1] = 2;
  table.row_at(table.index_of(6000))[1] = 0;  // the page is cloned, the row is as it was
  table.find_or_create(10'001);
  table.erase(17);  // the newest row takes its place
  const TableChanges changes = table.changes_since(before);
  std::vector<Key> written;
  for (const std::uint32_t index : changes.written) written.push_back(table.key_at(index));
  EXPECT_EQ(written, (std::vector<Key>{10'001, 5000}));
  EXPECT_EQ(changes.erased, std::vector<Key>{17});
}

TEST(EmbeddingTable, TheSmallestKeysAreThoseOfTheSortedTable) {
  Table table("embedding.item", 1, {}, 1);
  std::mt19937_64 random(3);
  for (int i = 0; i < 1000; ++i) table.find_or_create(random());
  std::vector<Key> sorted;
  for (const std::uint32_t index : table.sorted_indices()) sorted.push_back(table.key_at(index));
  EXPECT_EQ(table.smallest_keys(2000), sorted);
  sorted.resize(8);
  EXPECT_EQ(table.smallest_keys(8), sorted);
  EXPECT_TRUE(table.smallest_keys(0).empty());
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

TEST(EmbeddingTable, ManyLookupsGiveWhatSingleOnesDo) {
  std::mt19937_64 random(8);
  for (const std::size_t rows : {std::size_t{0}, std::size_t{5}, std::size_t{3000}}) {
    Table table("embedding.tag", 5, {StartKind::kNormal, 0.5}, 9);
    for (Key key = 0; key < rows; ++key) table.row_at(table.find_or_create(key))[1] = 3;
    std::vector<Key> keys(77);
    for (Key& key : keys) key = random() % (2 * rows + 1);  // half of them have no row
    std::vector<float> many(keys.size() * 5);
    table.copy_rows(keys, many.data());
    for (std::size_t i = 0; i < keys.size(); ++i) {
      std::vector<float> one(5);
      table.copy_row(keys[i], one);
      ASSERT_TRUE(std::equal(one.begin(), one.end(), many.begin() + static_cast<long>(i * 5)));
    }
  }
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
