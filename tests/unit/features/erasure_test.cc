// After an erasure nothing in the store names the user; what is left says so.
#include <set>

#include "features/outbox_relay.h"
#include "features/store.h"
#include "state_fixture.h"
#include "tests/fakes/memory_log.h"

namespace sirenfeed::features {
namespace {

constexpr base::UnixMs kWindow = 600'000;
const std::string kUser = "the-erased-user";
const std::string kOther = "the-erased-user-2";  // whose id only begins alike

ingest::InputRecord rejected_record(Records& records, const std::string& payload) {
  auto record = records.of(action_event("somebody", "a", kStart));
  record.payload = payload;
  record.content = ingest::Rejection{ingest::RejectReason::kWrongType, "item_id: expected an id"};
  return record;
}

/// Something of `user` in every family that knows users.
std::vector<ingest::InputRecord> all_of(Records& records, const std::string& user, int from) {
  std::vector<ingest::InputRecord> all;
  ingest::UserUpdate profile;
  profile.user_id = user;
  profile.time_ms = kStart;
  profile.segment = "de-mobile";
  all.push_back(records.of(profile));
  for (int i = from; i < from + 60; ++i) {  // enough for sections of their own
    const std::string n = std::to_string(i);
    const base::UnixMs time = kStart + i * 15'000;
    all.push_back(records.of(item_event("item-" + n, kStart, {"t" + n}, "author-" + n)));
    all.push_back(records.of(impression_event("i" + n, user, time, {"item-" + n}, "home")));
    all.push_back(records.of(action_event(user, "item-" + n, time + 5, "click", "i" + n)));
  }
  all.push_back(records.of(action_event(user, "item-1", kStart + 90 * base::kMsPerDay)));  // held
  all.push_back(rejected_record(records, R"({"user_id":")" + user + R"(","item_id":[1]})"));
  all.push_back(rejected_record(records, R"({"item_id":[1], "user_id": ")" + user));  // no JSON
  return all;
}

/// "family letter" of every key that holds `text` in itself or in its value.
std::set<std::string> places_of(const std::string& dir, const std::string& text) {
  StoreConfig config;
  config.dir = dir;
  const auto store = Store::open(config);
  EXPECT_TRUE(store);
  std::set<std::string> places;
  for (const Family family : {Family::kState, Family::kExpiring, Family::kOutbox}) {
    EXPECT_TRUE((*store)->scan(family, "", [&](std::string_view key, std::string_view value) {
      if (key.find(text) != key.npos || value.find(text) != value.npos) {
        places.insert(
            fmt::format("{} {}", static_cast<int>(family), key[0] == 0 ? key[1] : key[5]));
      }
      return true;
    }));
  }
  return places;
}

class ErasureTest : public testing::Test {
 protected:
  static FeaturesConfig config_in(const std::string& dir) {
    FeaturesConfig config = StateUnderTest::default_config();
    config.store.dir = dir;
    return config;
  }
  TempDir folder_;
};

TEST_F(ErasureTest, NoKeyAndNoValueOfTheStoreNamesTheUserAfterwards) {
  {
    StateUnderTest s(config_in(folder_.path()));
    s.apply(all_of(s.records, kUser, 0));
  }
  // Users, sections, pending examples and labels, retained impressions, held records; outbox:
  // examples and dead letters.
  const std::set<std::string> everywhere = {"0 U", "0 S", "0 J", "0 L", "0 K", "0 H", "2 e", "2 d"};
  ASSERT_EQ(places_of(folder_.path(), kUser), everywhere) << "or this test shows nothing";
  std::size_t entries = 0;
  {
    StateUnderTest s(config_in(folder_.path()));
    Records records;
    (void)all_of(records, kUser, 0);
    s.apply(all_of(records, kOther, 60));
    entries = static_cast<std::size_t>(s.probe->outbox_entries.value());
    const auto order = records.of(erase_event(kUser, kStart + 2 * kWindow));
    s.apply(std::vector{order});
    const auto removed = s.state->removed_by(order.source, order.offset);
    ASSERT_TRUE(removed);
    EXPECT_EQ(removed->at("users"), 1U);
    EXPECT_GE(removed->at("user_sections"), 3U);
    EXPECT_EQ(removed->at("held"), 1U);
    EXPECT_GT(removed->at("retained"), 0U);
    EXPECT_EQ(removed->at("dead_letters"), 2U);
    EXPECT_GT(removed->at("outbox"), 10U);
    EXPECT_EQ(s.probe->outbox_entries.value(), static_cast<double>(entries - 2));
    EXPECT_EQ(s.reader().erased_at(kUser).value(), kStart + 2 * kWindow);
    EXPECT_EQ(s.reader().erased_at(kOther).value(), std::nullopt);
  }
  std::set<std::string> left = places_of(folder_.path(), kUser + "\"");
  left.merge(places_of(folder_.path(), kUser + std::string("\x12")));  // a protobuf field follows
  EXPECT_EQ(left, std::set<std::string>());
  EXPECT_EQ(places_of(folder_.path(), kOther), everywhere) << "who has only a similar id stays";
}

TEST_F(ErasureTest, AnErasureInTheBatchOfTheEventsLeavesNothingEither) {
  {
    StateUnderTest s(config_in(folder_.path()));
    auto batch = all_of(s.records, kUser, 0);
    batch.push_back(s.records.of(erase_event(kUser, kStart + 2 * kWindow)));
    s.apply(batch);
  }
  EXPECT_EQ(places_of(folder_.path(), kUser), std::set<std::string>());
}

TEST_F(ErasureTest, AReplayOfEverythingBringsNothingBack) {
  {
    StateUnderTest s(config_in(folder_.path()));
    s.apply(all_of(s.records, kUser, 0));
    s.apply(erase_event(kUser, kStart + 2 * kWindow));
    // The same events again, as a producer may send them: at offsets of their own.
    auto again = all_of(s.records, kUser, 0);
    std::erase_if(again, [](const ingest::InputRecord& record) {
      return std::holds_alternative<ingest::Rejection>(record.content) ||
             record.time_ms > kStart + 2 * kWindow;
    });
    s.apply(again);
    EXPECT_EQ(s.reader().read_user(kUser, kStart + 3 * kWindow)->known, false);
  }
  EXPECT_EQ(places_of(folder_.path(), kUser), std::set<std::string>());
}

TEST_F(ErasureTest, WhatHadNotLeftLeavesWithoutTheUserAndInOrder) {
  StateUnderTest s(config_in(folder_.path()));
  fakes::MemoryLog log;
  s.apply(all_of(s.records, kUser, 0));
  s.apply(all_of(s.records, kOther, 60));
  s.apply(erase_event(kUser, kStart + 2 * kWindow));
  OutboxRelay relay({}, s.state->outbox(), log, *s.probe);
  relay.start();
  ASSERT_TRUE(relay.drain(std::chrono::seconds(10)));
  relay.stop();
  std::uint64_t erased = 0;
  std::uint64_t last = 0;
  for (const auto& record : log.records({ingest::Topic::kExamples, 0})) {
    Example example;
    ASSERT_TRUE(example.ParseFromString(*record.value));
    EXPECT_EQ(example.sequence(), last + 1) << "a number that is missing would stop the trainer";
    last = example.sequence();
    EXPECT_NE(example.user_id(), kUser);
    EXPECT_EQ(record.key, example.user_id());
    if (!example.erased()) continue;
    ++erased;
    EXPECT_EQ(example.candidates_size(), 0);
    EXPECT_EQ(example.impression_id(), "");
    EXPECT_GT(example.time_ms(), 0);
  }
  EXPECT_GT(erased, 10U);
  EXPECT_GT(last, erased);
  for (const auto& record : log.records({ingest::Topic::kDeadLetters, 0})) {
    EXPECT_EQ(record.value->find(kUser + "\\\""), std::string::npos);
  }
}

TEST_F(ErasureTest, ATakedownSaysWhatItRemoved) {
  StateUnderTest s(config_in(folder_.path()));
  s.apply(item_event("gone", kStart, {"t"}, "p"));
  s.apply(impression_event("i1", "u", kStart + 1, {"gone"}, "home"));
  const auto order = s.records.of(takedown_event("gone", kStart + 2));
  s.apply(std::vector{order});
  const auto removed = s.state->removed_by(order.source, order.offset);
  ASSERT_TRUE(removed);
  EXPECT_EQ(removed->at("catalog"), 1U);
  EXPECT_EQ(removed->at("counters"), 2U);  // the item's, and that on its surface
  EXPECT_EQ(s.state->removed_by(order.source, order.offset + 1), std::nullopt);
}

TEST_F(ErasureTest, TakedownsAndStubsAreForgottenWithTheirTombstones) {
  FeaturesConfig config = config_in(folder_.path());
  config.join.tombstone_age_max_ms = config.join.dedup_horizon_ms;
  const auto entries = [&](StateUnderTest& s) {
    EXPECT_TRUE(s.state->compact());
    const auto families = s.state->families();
    for (const FamilySize& size : *families) {
      if (size.family == "catalog") return size.keys;
    }
    return std::uint64_t{0};
  };
  StateUnderTest s(config);
  s.apply(item_event("kept", kStart));
  s.apply(item_event("gone", kStart));
  s.apply(takedown_event("gone", kStart + 1));
  s.apply(impression_event("i1", "u", kStart + 1, {"stub", "kept"}));
  s.apply(item_event("gone", kStart));  // again: the takedown is in force
  EXPECT_EQ(s.probe->rejected_total(), 1U);
  EXPECT_EQ(entries(s), 3U);
  constexpr base::UnixMs kStep = base::kMsPerDay / 2;  // a longer one is held
  for (base::UnixMs age = kStep; age <= config.join.tombstone_age_max_ms; age += kStep) {
    EXPECT_NE(s.canonical().find("item gone"), std::string::npos);
    s.apply(impression_event("at " + std::to_string(age), "u", kStart + 2 + age, {"kept"}));
  }
  const std::string canonical = s.canonical();
  EXPECT_EQ(canonical.find("item gone"), std::string::npos) << "though no compaction has come by";
  EXPECT_EQ(canonical.find("item stub"), std::string::npos);
  EXPECT_EQ(entries(s), 1U);
  EXPECT_EQ(s.canonical(), canonical);
  s.apply(item_event("gone", kStart));
  EXPECT_TRUE(s.reader().item(std::string_view("gone"))->known);
  EXPECT_EQ(entries(s), 2U);
}

TEST_F(ErasureTest, ImpressionsAreConservedWhenTheirUserIsErased) {
  StateUnderTest s(config_in(folder_.path()));
  s.apply(all_of(s.records, kUser, 0));
  s.apply(all_of(s.records, kOther, 60));
  s.apply(erase_event(kOther, kStart + 4 * kWindow));  // the newer one: its windows are open
  EXPECT_GT(s.probe->impressions_erased.value(), 0U);
  EXPECT_GT(s.probe->examples.value(), 0U);
  EXPECT_EQ(static_cast<double>(s.probe->impressions.value()),
            static_cast<double>(s.probe->examples.value() + s.probe->examples_muted.value() +
                                s.probe->impressions_erased.value()) +
                s.probe->pending.value());
}

}  // namespace
}  // namespace sirenfeed::features
