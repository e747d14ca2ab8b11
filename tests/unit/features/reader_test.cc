// What serving reads, while another thread applies.
#include <atomic>
#include <cmath>
#include <thread>

#include "features/example_json.h"
#include "state_fixture.h"

namespace sirenfeed::features {
namespace {

Key key(std::string_view id) { return base::xxh3_64(id); }

TEST(Reader, AnItemThatIsShownAgainIsAsPopularAsBefore) {
  StateUnderTest s;
  s.apply(item_event("a", kStart));
  s.apply(impression_event("i", "u", kStart + 1, {"a"}));
  s.apply(action_event("u", "a", kStart + 2));
  const auto popular = [&] { return s.reader().popular(PopularSpan::kDay, 9, kStart + 9); };
  EXPECT_EQ(popular(), std::vector{base::xxh3_64("a")});
  auto hidden = item_event("a", kStart + 3);
  hidden.hidden = true;
  s.apply(hidden);
  EXPECT_TRUE(popular().empty());
  s.apply(item_event("a", kStart + 4));
  EXPECT_EQ(popular(), std::vector{base::xxh3_64("a")});
}

TEST(Reader, IndexesHoldTheLivingInTheirOrder) {
  StateUnderTest s;
  s.apply(item_event("old", kStart, {"t"}, "p"));
  s.apply(item_event("new", kStart + 100, {"t", "w"}, "q"));
  ingest::ItemUpdate hidden = item_event("hidden", kStart + 200, {"t"}, "p");
  hidden.hidden = true;
  s.apply(hidden);
  ingest::ItemUpdate expiring = item_event("expiring", kStart + 300, {"w"}, "p");
  expiring.expires_at_ms = kStart + 1'000'000'000'000;
  s.apply(expiring);
  const base::UnixMs now = kStart + 400;
  EXPECT_EQ(s.reader().fresh(10, now), (std::vector{key("expiring"), key("new"), key("old")}));
  EXPECT_EQ(s.reader().fresh(1, now), std::vector{key("expiring")});
  EXPECT_EQ(s.reader().fresh(10, kStart + 1'000'000'000'000),
            (std::vector{key("new"), key("old")}));
  EXPECT_EQ(s.reader().by_tag(key("t"), 10, now), (std::vector{key("new"), key("old")}));
  EXPECT_EQ(s.reader().by_author(key("p"), 10, now), (std::vector{key("expiring"), key("old")}));
  EXPECT_EQ(s.reader().random(10, 7, now).size(), 3U);
  EXPECT_EQ(s.reader().random(2, 7, now), s.reader().random(2, 7, now));
  EXPECT_EQ(s.reader().indexed_items(), 3U);
  s.reopen();
  EXPECT_EQ(s.reader().fresh(10, now), (std::vector{key("expiring"), key("new"), key("old")}));
}

TEST(Reader, PopularRanksByDecayedClicks) {
  StateUnderTest s;
  s.apply(item_event("early", kStart));
  s.apply(item_event("late", kStart));
  s.apply(item_event("unclicked", kStart));
  for (int i = 0; i < 4; ++i) {
    const std::string n = std::to_string(i);
    s.apply(impression_event("e" + n, "u" + n, kStart + i, {"early", "unclicked"}));
    s.apply(action_event("u" + n, "early", kStart + i + 1));
  }
  const base::UnixMs later = kStart + 12 * base::kMsPerHour;
  s.apply(impression_event("l", "u", later, {"late"}));
  s.apply(action_event("u", "late", later + 1));
  const auto both = [&](PopularSpan span) { return s.reader().popular(span, 10, later + 2); };
  EXPECT_EQ(both(PopularSpan::kHour), (std::vector{key("late"), key("early")}));
  EXPECT_EQ(both(PopularSpan::kDay), (std::vector{key("early"), key("late")}));
  s.reopen();
  EXPECT_EQ(both(PopularSpan::kHour), (std::vector{key("late"), key("early")}));
}

TEST(Reader, TheIndexLetsTheOldestGo) {
  FeaturesConfig config = StateUnderTest::default_config();
  config.index.items_max = 3;
  StateUnderTest s(config);
  for (int i = 0; i < 5; ++i) s.apply(item_event("item-" + std::to_string(i), kStart + i));
  EXPECT_EQ(s.reader().fresh(10, kStart + 9),
            (std::vector{key("item-4"), key("item-3"), key("item-2")}));
}

TEST(Reader, AUserHasProfileTopicsAndSeenSet) {
  StateUnderTest s;
  ingest::UserUpdate profile;
  profile.user_id = "u";
  profile.time_ms = kStart;
  profile.segment = "de-mobile";
  profile.blocked_authors = {"bad"};
  s.apply(profile);
  s.apply(item_event("a", kStart, {"sport"}, "p"));
  s.apply(item_event("b", kStart, {"news"}, "q"));
  s.apply(impression_event("i", "u", kStart + 1, {"a", "b"}));
  s.apply(action_event("u", "b", kStart + 2));
  const auto user = s.reader().read_user("u", kStart + 10);
  ASSERT_TRUE(user);
  EXPECT_EQ(user->segment_key, key("de-mobile"));
  EXPECT_EQ(user->blocked_authors, std::vector{key("bad")});
  EXPECT_TRUE(user->seen(key("a")));
  EXPECT_FALSE(user->seen(key("c")));
  // A clock of events stands at the exposure itself.
  EXPECT_TRUE(s.reader().read_user("u", kStart + 1)->seen(key("a")));
  EXPECT_EQ(user->top_tags(5), std::vector{key("news")});
  EXPECT_EQ(user->top_authors(5), std::vector{key("q")});
  EXPECT_EQ(s.seen.exposures.at(0).segment(), key("de-mobile"));
  const auto stranger = s.reader().read_user("nobody", kStart);
  ASSERT_TRUE(stranger);
  EXPECT_FALSE(stranger->known);
  ASSERT_TRUE(s.state->inspect_user("u"));
  EXPECT_NE(s.state->inspect_user("u")->find("\"type\":\"click\""), std::string::npos);
  EXPECT_NE(s.state->inspect_item("b")->find("\"news\""), std::string::npos);
  EXPECT_EQ(s.state->inspect_item("zzz").error().code, base::ErrorCode::kNotFound);
}

TEST(Reader, AnExampleIsWrittenWithTheNamesOfTheCatalog) {
  StateUnderTest s;
  s.apply(item_event("a", kStart, {"sport", "news"}, "p"));
  s.apply(impression_event("i", "u", kStart + 1, {"a"}));
  s.apply(action_event("u", "a", kStart + 2));
  s.apply(impression_event("j", "u", kStart + 3, {"b \"quoted\""}));
  const std::vector<std::string> actions = {"click", "long_view", "like"};
  const auto json =
      example_to_json(s.seen.exposures.at(1), s.reader(), {.actions = actions, .surfaces = {}});
  ASSERT_TRUE(json);
  EXPECT_TRUE(json->starts_with(
      R"({"time":1650000000003,"segment":null,"user":"u","history":[{"item":"a",)"
      R"("tags":["sport","news"],"author":"p","time":1650000000001,"actions":["click"]}],"candidates":[)"
      R"({"item":"b \"quoted\"","tags":[],"author":null,"context":[)"))
      << *json;
  EXPECT_TRUE(json->ends_with("]}]}"));
}

TEST(Reader, AHistoryKnowsWhereItWasShown) {
  StateUnderTest s;
  s.apply(impression_event("i", "u", kStart + 1, {"a"}, "home"));
  s.apply(impression_event("j", "u", kStart + 2, {"b"}));
  s.apply(impression_event("k", "u", kStart + 3, {"c"}, "search"));
  s.apply(impression_event("l", "u", kStart + 4, {"d"}, "home"));
  const Example& example = s.seen.exposures.at(3);
  const HistoryColumns& history = example.history();
  ASSERT_EQ(history.surface_size(), 3);
  ASSERT_EQ(history.surfaces_size(), 2);
  EXPECT_EQ(history.surfaces(0), key("home"));
  EXPECT_EQ(history.surfaces(1), key("search"));
  EXPECT_EQ(history.surface(0), 1U);
  EXPECT_EQ(history.surface(1), 0U);
  EXPECT_EQ(history.surface(2), 2U);
  const auto user = s.reader().read_user("u", kStart + 4);
  ASSERT_TRUE(user);
  EXPECT_EQ(user->history.tokens.at(2).surface, key("search"));

  const std::vector<std::string> surfaces = {"search"};
  const auto json = example_to_json(example, s.reader(), {.actions = {}, .surfaces = surfaces});
  ASSERT_TRUE(json);
  EXPECT_NE(json->find(R"("user":"u","surface":"home","history")"), std::string::npos);
  EXPECT_NE(json->find(R"("actions":[],"surface":"search"})"), std::string::npos) << *json;
}

TEST(Reader, AHistoryOfActionsLeavesOutTheOthersBeforeTheCut) {
  FeaturesConfig config = StateUnderTest::default_config();
  config.example.history_max = 2;
  config.example.history_actions_only = true;
  StateUnderTest s(config);
  for (int i = 0; i < 5; ++i) {
    const std::string n = std::to_string(i);
    s.apply(impression_event("i" + n, "u", kStart + 10 * i, {"item" + n}));
    if (i < 3) s.apply(action_event("u", "item" + n, kStart + 10 * i + 5));
  }
  // The newest two that were acted on, though two newer exposures were not.
  s.apply(impression_event("now", "u", kStart + 100, {"x"}));
  const auto check = [&](auto items) {
    ASSERT_EQ(items.size(), 2U);
    EXPECT_EQ(items.at(0), key("item1"));
    EXPECT_EQ(items.at(1), key("item2"));
  };
  const auto& columns = s.seen.exposures.back().history().item();
  check(std::vector<Key>(columns.begin(), columns.end()));
  const auto user = s.reader().read_user("u", kStart + 100);
  ASSERT_TRUE(user);
  std::vector<Key> served;
  for (const HistoryToken& token : user->history.tokens) served.push_back(token.item);
  check(served);
  // An action counts from when it is known: at its own time it is not yet.
  const auto earlier = s.reader().read_user("u", kStart + 25);
  ASSERT_TRUE(earlier);
  ASSERT_EQ(earlier->history.tokens.size(), 2U);
  EXPECT_EQ(earlier->history.tokens[1].item, key("item1"));
}

TEST(Reader, ReadersAndTheApplyingThreadDoNotDisturbEachOther) {
  FeaturesConfig config = StateUnderTest::default_config();
  config.store.item_entries_max = 64;  // so that entries come and go
  config.store.catalog_entries_max = 64;
  StateUnderTest s(config);
  s.wiring.observer = nullptr;
  s.reopen();
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 2; ++t) {
    threads.emplace_back([&s, &stop, t] {
      const FeatureReader& reader = s.reader();
      std::vector<float> out;
      for (base::UnixMs now = kStart; !stop; ++now) {
        const auto user = reader.read_user("u" + std::to_string(now % 5), now);
        ASSERT_TRUE(user);
        std::vector<Key> items = t == 0 ? reader.fresh(20, now) : reader.random(20, 1, now);
        out.resize(items.size() * reader.feature_names().size());
        reader.context(*user, items, "home", out);
        for (const float value : out) ASSERT_TRUE(std::isfinite(value));
        (void)reader.popular(PopularSpan::kDay, 10, now);
      }
    });
  }
  for (int i = 0; i < 150; ++i) {
    const std::string n = std::to_string(i % 100);
    const std::string user = "u" + std::to_string(i % 5);
    s.apply(
        {s.records.of(item_event("item-" + n, kStart + i, {"t" + std::to_string(i % 7)})),
         s.records.of(impression_event("i" + std::to_string(i), user, kStart + i, {"item-" + n})),
         s.records.of(action_event(user, "item-" + n, kStart + i))});
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(s.reader().indexed_items(), 100U);
}

}  // namespace
}  // namespace sirenfeed::features
