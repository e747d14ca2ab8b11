// What a state holds is bounded, whatever streams in: in RocksDB's memory, of each user, of the
// join, and of what is only remembered for a while.
#include <random>

#include "features/item_side.h"
#include "features/store.h"
#include "state_fixture.h"

namespace sirenfeed::features {
namespace {

constexpr base::UnixMs kWindow = 600'000;

std::map<std::string, FamilySize> families_of(const StateUnderTest& s) {
  std::map<std::string, FamilySize> families;
  const auto sizes = s.state->families();
  EXPECT_TRUE(sizes);
  for (const FamilySize& size : *sizes) families[size.family] = size;
  return families;
}

TEST(Bounds, OneCacheHoldsBlocksIndexesFiltersAndMemtablesOfAllFamilies) {
  TempDir folder;
  StoreConfig config;
  config.dir = folder.path();
  config.block_cache_bytes = 8U << 20U;
  config.memtable_bytes = 2U << 20U;
  auto store = *Store::open(config);
  std::mt19937_64 random(1);
  std::string value(1'000, 'x');
  constexpr std::uint64_t kKeys = 40'000;  // 40 MB, five times the cache
  for (std::uint64_t n = 0; n < kKeys; n += 100) {
    WriteBatch batch;
    for (std::uint64_t i = n; i < n + 100; ++i) {
      for (char& c : value) c = static_cast<char>(random());
      std::string key(1, '\1');
      append_be64(key, i * 0x9E3779B97F4A7C15ULL);
      batch.put(static_cast<Family>(i % kFamilies), key, value);
    }
    ASSERT_TRUE(store->write(batch));
    const auto memory = store->memory();
    // Two of half the size a family, one of them being flushed, and the last block of each.
    ASSERT_LE(memory->memtable_bytes, 3 * config.memtable_bytes + config.memtable_bytes / 4);
  }
  ASSERT_TRUE(store->compact());
  for (const Family family : {Family::kState, Family::kExpiring, Family::kOutbox}) {
    ASSERT_TRUE(store->scan(family, "", [](std::string_view, std::string_view) { return true; }));
  }
  const auto memory = store->memory();
  ASSERT_TRUE(memory);
  EXPECT_GT(memory->cache_bytes, config.block_cache_bytes / 2) << "everything was read";
  EXPECT_LE(memory->cache_bytes, config.block_cache_bytes + config.memtable_bytes);
  // Filters of ten bits a key alone would be 50 kB here.
  EXPECT_LT(memory->table_reader_bytes, 40'000U);
}

TEST(Bounds, AUserKeepsTheNewestOfEverything) {
  FeaturesConfig config = StateUnderTest::default_config();
  config.user.sequence_max = 20;
  config.user.seen_max = 16;
  config.user.pairs_max = 16;
  config.example.history_max = 8;
  StateUnderTest s(config);
  std::uint64_t bytes_after_100 = 0;
  for (int n = 0; n < 400; ++n) {
    const std::string id = std::to_string(n);
    const base::UnixMs time = kStart + n * 1'000;
    s.apply(item_event("item-" + id, kStart, {"tag-" + id}, "author-" + id));
    s.apply(impression_event("i" + id, "u", time, {"item-" + id}));
    if (n == 100) {
      bytes_after_100 = families_of(s)["users"].bytes + families_of(s)["user_sections"].bytes;
    }
  }
  const auto sequence = s.reader().read_sequence("u");
  ASSERT_TRUE(sequence);
  ASSERT_EQ(sequence->size(), 20U);
  EXPECT_EQ(sequence->back().item, base::xxh3_64("item-399"));
  EXPECT_EQ(s.seen.exposures.back().history().item_size(), 8);
  const auto snapshot = s.reader().read_user("u", kStart + 1'000'000);
  EXPECT_TRUE(snapshot->seen(base::xxh3_64("item-399")));
  EXPECT_FALSE(snapshot->seen(base::xxh3_64("item-0")));
  const auto families = families_of(s);
  const std::uint64_t bytes =
      families.at("users").bytes +
      (families.contains("user_sections") ? families.at("user_sections").bytes : 0);
  EXPECT_LE(bytes, bytes_after_100 * 3 / 2);
}

TEST(Bounds, WindowsRetainedImpressionsAndIdsGoWithTime) {
  FeaturesConfig config = StateUnderTest::default_config();
  config.join.dedup_horizon_ms = 2 * kWindow;
  config.corrections.retention_ms = kWindow;
  StateUnderTest s(config);
  std::map<std::string, std::uint64_t> half;
  constexpr int kImpressions = 600;
  for (int n = 0; n < kImpressions; ++n) {
    const std::string id = std::to_string(n);
    const base::UnixMs time = kStart + n * 30'000;  // 20 in a window
    auto impression = impression_event("i" + id, "u" + std::to_string(n % 3), time, {"a", "b"});
    s.apply(impression);
    s.apply(action_event("u" + std::to_string(n % 3), "a", time + 10, "click", "i" + id));
    if (n != kImpressions / 2) continue;
    ASSERT_TRUE(s.state->compact());
    for (const auto& [name, size] : families_of(s)) half[name] = size.keys;
  }
  ASSERT_TRUE(s.state->compact());
  const auto families = families_of(s);
  for (const char* family :
       {"pending_examples", "pending_labels", "retained", "impression_ids", "event_ids"}) {
    ASSERT_TRUE(families.contains(family)) << family;
    EXPECT_GT(families.at(family).keys, 0U) << family;
    EXPECT_GT(families.at(family).bytes, 0U) << family;
    EXPECT_LE(families.at(family).keys, half[family] + 2) << family;
    EXPECT_LE(families.at(family).keys, 70U) << family;
  }
  EXPECT_LE(s.probe->open_windows.value(), 22);
}

TEST(Bounds, OpenExamplesBeyondTheirBytesLieOnTheDiskAlone) {
  FeaturesConfig config = StateUnderTest::default_config();
  config.store.pending_bytes = 10'000;
  StateUnderTest s(config);
  for (int n = 0; n < 100; ++n) {
    s.apply(impression_event("i" + std::to_string(n), "u", kStart + n, {"a", "b", "c"}));
  }
  ASSERT_TRUE(s.state->close_windows(0));
  ASSERT_EQ(s.seen.closed.size(), 100U);
  for (std::size_t n = 0; n < 100; ++n) {
    Example closed = s.seen.closed[n];
    EXPECT_EQ(closed.candidates(2).context().size(),
              s.seen.exposures[n].candidates(2).context().size());
    EXPECT_EQ(closed.history().SerializeAsString(),
              s.seen.exposures[n].history().SerializeAsString());
  }
}

TEST(Bounds, TwoItemsOfOneHashAreToldApart) {
  TempDir folder;
  FeaturesConfig config = StateUnderTest::default_config();
  config.store.dir = folder.path();
  {
    StateUnderTest made(config);  // with its format
  }
  {
    CatalogItem other;
    other.id = "the other";
    other.hash = base::xxh3_64("a");
    WriteBatch batch;
    batch.put(Family::kState, catalog_key(other.hash), encode_catalog_item(other));
    ASSERT_TRUE((*Store::open(config.store))->write(batch));
  }
  StateUnderTest s(config);
  s.apply(impression_event("i", "u", kStart, {"a"}));
  s.apply(action_event("u", "a", kStart));
  s.apply(item_event("a", kStart));
  EXPECT_EQ(s.probe->rejected_total(), 3U);
  const auto letters =
      s.state->outbox().read({ingest::Topic::kDeadLetters, 0}, 1, 10, std::size_t{1} << 20U);
  ASSERT_EQ(letters->size(), 3U);
  for (const OutboxEntry& letter : *letters) {
    EXPECT_NE(letter.value.find("id_collision"), std::string::npos) << letter.value;
  }
}

}  // namespace
}  // namespace sirenfeed::features
