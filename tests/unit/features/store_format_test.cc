// A store of every format that was ever written opens with what it held, or is refused by name. The
// fixtures in tests/data/state_formats are dumps ("family key value" in hex), so that they do not
// depend on RocksDB's own format; the disabled test below makes that of today's.
#include "features/store_format.h"

#include <fstream>

#include "features/store.h"
#include "state_fixture.h"

namespace sirenfeed::features {
namespace {

constexpr base::UnixMs kWindow = 600'000;

std::string fixture_path(int format) {
  return fmt::format("{}/tests/data/state_formats/{}.dump", SIRENFEED_SOURCE_DIR, format);
}

std::string hex(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return text.empty() ? "-" : text;
}
std::string unhex(std::string_view text) {
  std::string bytes;
  for (std::size_t i = 0; text != "-" && i + 1 < text.size(); i += 2) {
    bytes.push_back(static_cast<char>(std::stoi(std::string(text.substr(i, 2)), nullptr, 16)));
  }
  return bytes;
}

std::string dump(const Store& store) {
  std::string text;
  for (const Family family : {Family::kState, Family::kExpiring, Family::kOutbox}) {
    EXPECT_TRUE(store.scan(family, "", [&](std::string_view key, std::string_view value) {
      text += fmt::format("{} {} {}\n", static_cast<int>(family), hex(key), hex(value));
      return true;
    }));
  }
  return text;
}

void load_dump(const std::string& file, const std::string& dir) {
  StoreConfig config;
  config.dir = dir;
  const auto store = Store::open(config);
  ASSERT_TRUE(store) << store.error().message;
  std::ifstream in(file);
  ASSERT_TRUE(in) << file;
  WriteBatch batch;
  int family = 0;
  std::string key;
  std::string value;
  while (in >> family >> key >> value) {
    batch.put(static_cast<Family>(family), unhex(key), unhex(value));
  }
  ASSERT_GT(batch.count(), 20U);
  ASSERT_TRUE((*store)->write(batch));
}

FeaturesConfig config_in(const std::string& dir, int format = kStoreFormat) {
  FeaturesConfig config = StateUnderTest::default_config();
  config.store.dir = dir;
  config.partitions = 2;
  config.corrections.enabled = format >= 2;  // retained impressions came later
  return config;
}

// Something of every family: a heavy user (sections of its own), profiles, an erasure, a takedown,
// an open window with labels, a held record, outbox entries and a dead letter.
std::vector<ingest::InputRecord> stream_of_everything(Records& records) {
  std::vector<ingest::InputRecord> all;
  for (int i = 0; i < 40; ++i) {
    const std::string n = std::to_string(i);
    all.push_back(records.of(item_event("item-" + n, kStart, {"t" + n, "x"}, "author-" + n)));
  }
  ingest::UserUpdate profile;
  profile.user_id = "u1";
  profile.time_ms = kStart;
  profile.segment = "de-mobile";
  profile.blocked_tags = {"t3"};
  all.push_back(records.of(profile));
  for (int i = 0; i < 40; ++i) {
    const std::string n = std::to_string(i);
    const base::UnixMs time = kStart + i * 30'000;
    all.push_back(records.of(impression_event("i" + n, "u1", time, {"item-" + n}, "home")));
    all.push_back(records.of(action_event("u1", "item-" + n, time + 5, "click", "i" + n)));
  }
  all.push_back(records.of(impression_event("e1", "u-erased", kStart + kWindow, {"item-1"}),
                           ingest::partition_of("u-erased", 2)));
  all.push_back(records.of(erase_event("u-erased", kStart + 2 * kWindow),
                           ingest::partition_of("u-erased", 2)));
  all.push_back(records.of(takedown_event("item-2", kStart + 2 * kWindow)));
  all.push_back(records.of(impression_event("open", "u2", kStart + 3 * kWindow, {"item-3"})));
  all.push_back(records.of(action_event("u2", "item-3", kStart + 3 * kWindow + 9, "like", "open")));
  all.push_back(records.of(action_event("u2", "item-4", kStart + 90 * base::kMsPerDay)));  // held
  auto broken = records.of(action_event("u", "a", kStart));
  broken.content = ingest::Rejection{ingest::RejectReason::kNotJson, "expected an object"};
  all.push_back(broken);
  return all;
}

TEST(StoreFormat, AStoreOfEveryEarlierFormatOpensWithWhatItHeld) {
  for (int format = 1; format <= kStoreFormat; ++format) {
    SCOPED_TRACE(format);
    TempDir fresh_folder;
    std::string expected;
    {
      StateUnderTest fresh(config_in(fresh_folder.path(), format));
      fresh.apply(stream_of_everything(fresh.records));
      expected = fresh.canonical();
    }
    TempDir folder;
    load_dump(fixture_path(format), folder.path());
    StateUnderTest s(config_in(folder.path(), format));
    EXPECT_EQ(s.canonical(), expected);
    // It is a state like any other: it reads what it was given before as known, and goes on.
    Records again;
    s.apply(stream_of_everything(again));
    EXPECT_EQ(s.canonical(), expected);
    EXPECT_EQ(s.probe->applied.value(), 0U);
    s.apply(std::vector{again.of(action_event("u2", "item-3", kStart + 3 * kWindow + 10))});
    EXPECT_EQ(s.probe->applied.value(), 1U);
    s.reopen();
    EXPECT_EQ(s.reader().erased_at("u-erased").value(), kStart + 2 * kWindow);
    s.state.reset();
    StoreConfig config;
    config.dir = folder.path();
    EXPECT_EQ((*read_store_format(**Store::open(config)))->version, kStoreFormat);
  }
}

TEST(StoreFormat, ANewerFormatIsRefusedAndLeftAlone) {
  TempDir folder;
  StoreConfig config;
  config.dir = folder.path();
  const std::string key("\0F", 2);
  const std::string value = {static_cast<char>(kStoreFormat + 1), '\x02'};
  {
    const auto store = Store::open(config);
    WriteBatch batch;
    batch.put(Family::kState, key, value);
    ASSERT_TRUE((*store)->write(batch));
  }
  base::MetricsRegistry registry;
  FeaturesProbe probe(registry);
  const auto state = FeatureState::open(config_in(folder.path()), probe);
  ASSERT_FALSE(state);
  EXPECT_EQ(state.error().code, base::ErrorCode::kCorrupt);
  EXPECT_NE(state.error().message.find(fmt::format("format {}", kStoreFormat + 1)),
            std::string::npos)
      << state.error().message;
  EXPECT_NE(state.error().message.find("newer"), std::string::npos) << state.error().message;
  EXPECT_EQ(**(*Store::open(config))->get(Family::kState, key), value);
}

TEST(StoreFormat, DISABLED_WriteTheFixtureOfTodaysFormat) {
  TempDir folder;
  {
    StateUnderTest s(config_in(folder.path()));
    s.apply(stream_of_everything(s.records));
  }
  StoreConfig config;
  config.dir = folder.path();
  const auto store = Store::open(config);
  ASSERT_TRUE(store);
  std::ofstream(fixture_path(kStoreFormat)) << dump(**store);
}

}  // namespace
}  // namespace sirenfeed::features
