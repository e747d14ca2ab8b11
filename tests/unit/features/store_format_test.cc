// A store of every format that was ever written opens with what it held, or is refused by name. The
// fixtures in tests/data/state_formats are dumps ("family key value" in hex), so that they do not
// depend on RocksDB's own format; tests/support/write_state_format.cc makes that of today's.
#include "features/store_format.h"

#include <fstream>

#include "features/store.h"
#include "state_format_fixture.h"

namespace sirenfeed::features {
namespace {

std::string unhex(std::string_view text) {
  std::string bytes;
  for (std::size_t i = 0; text != "-" && i + 1 < text.size(); i += 2) {
    bytes.push_back(static_cast<char>(std::stoi(std::string(text.substr(i, 2)), nullptr, 16)));
  }
  return bytes;
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

}  // namespace
}  // namespace sirenfeed::features
