#include "serving/feed_service.h"

#include <example.pb.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <boost/json.hpp>
#include <map>
#include <set>

#include "base/hash.h"
#include "features/example_format/context_schema.h"
#include "model/ranker.h"
#include "serving/scorer.h"
#include "tests/support/served_world.h"

namespace sirenfeed::serving {
namespace {

using test::kWorldStart;
using test::ServedWorld;
using test::WorldOptions;

std::vector<std::string> ids(const FeedAnswer& answer) {
  std::vector<std::string> out;
  for (const FeedItem& item : answer.items) out.push_back(item.item_id);
  return out;
}

std::map<std::string, std::string> reasons(const FeedAnswer& answer) {
  std::map<std::string, std::string> out;
  for (const RemovedItem& item : answer.removed) out[item.item_id] = item.reason;
  return out;
}

FeedAnswer feed(ServedWorld& world, FeedRequest request) {
  auto answer = world.feeds->feed(request);
  EXPECT_TRUE(answer) << answer.error().message;
  return answer ? *std::move(answer) : FeedAnswer{};
}

/// Without random slots and caps.
WorldOptions plain() {
  WorldOptions options;
  options.serving.feed.selector.exploration_share = 0;
  options.serving.feed.selector.per_author_max = 0;
  options.serving.feed.selector.per_topic_share = 1;
  return options;
}

TEST(FeedService, AnUnknownUserGetsAColdFeedMarkedDegradedWithoutAModel) {
  ServedWorld world(plain());
  world.publish_items(10);
  const FeedAnswer answer = feed(world, {.user_id = "nobody", .count = 5});
  EXPECT_EQ(answer.items.size(), 5U);
  EXPECT_EQ(answer.model_version, 0U);
  ASSERT_TRUE(answer.degraded);
  EXPECT_EQ(answer.items[0].item_id, "i9") << "the newest first";
  EXPECT_EQ(answer.time_ms, kWorldStart);
  EXPECT_TRUE(answer.items[0].probabilities.empty());
}

TEST(FeedService, PopularItemsPrecedeFreshOnesWithoutAModel) {
  ServedWorld world(plain());
  world.publish_items(10);
  world.publish({ServedWorld::impression("u", {"i2"}, kWorldStart - 1000),
                 ServedWorld::action("u", "i2", kWorldStart - 500)});
  EXPECT_EQ(feed(world, {.user_id = "other", .count = 3}).items[0].item_id, "i2");
}

TEST(FeedService, SeenItemsAreNotShownAgain) {
  ServedWorld world(plain());
  world.publish_items(10);
  world.publish({ServedWorld::impression("u", {"i9", "i8"}, kWorldStart - 1000)});
  const auto shown = ids(feed(world, {.user_id = "u", .count = 10}));
  EXPECT_EQ(shown.size(), 8U);
  EXPECT_EQ(std::count(shown.begin(), shown.end(), "i9"), 0);
  EXPECT_EQ(ids(feed(world, {.user_id = "v", .count = 10})).size(), 10U);
}

TEST(FeedService, EveryCandidateEndsInExactlyOneBucketWithItsReason) {
  ServedWorld world(plain());
  world.publish_items(10);
  ingest::ItemUpdate hidden = ServedWorld::item("hidden");
  hidden.hidden = true;
  ingest::UserUpdate profile;
  profile.user_id = "u";
  profile.time_ms = kWorldStart - 5000;
  profile.blocked_authors = {"author1"};
  profile.blocked_tags = {"topic0"};
  world.publish({hidden, profile, ServedWorld::impression("u", {"i9", "i7"}, kWorldStart - 1000)});
  const FeedAnswer answer =
      feed(world, {.user_id = "u", .count = 2, .exclude = {"i2"}, .debug = true});
  const auto why = reasons(answer);
  EXPECT_EQ(why.at("i9"), "seen");
  EXPECT_EQ(why.at("i2"), "excluded");
  EXPECT_EQ(why.at("i1"), "blocked_author");
  EXPECT_EQ(why.at("i6"), "blocked_author");
  EXPECT_EQ(why.at("i0"), "blocked_tag");
  EXPECT_EQ(answer.items.size(), 2U);
  ASSERT_TRUE(answer.debug);
  EXPECT_EQ(answer.debug->candidates, answer.items.size() + answer.removed.size());
  std::set<std::string> all;
  for (const std::string& id : ids(answer)) all.insert(id);
  for (const RemovedItem& item : answer.removed) all.insert(item.item_id);
  EXPECT_EQ(all.size(), answer.debug->candidates) << "no candidate is in two buckets";
  EXPECT_EQ(answer.debug->sources.size(), 5U);
  EXPECT_EQ(all.count("hidden"), 0U) << "the sources give servable items only";
}

TEST(FeedService, TakenDownHiddenAndExpiredItemsAreNeverServed) {
  ServedWorld world(plain());
  world.publish_items(6);
  ingest::ItemUpdate takedown = ServedWorld::item("i5");
  takedown.deleted = true;
  takedown.time_ms = kWorldStart - 10;
  ingest::ItemUpdate hidden = ServedWorld::item("i4");
  hidden.hidden = true;
  ingest::ItemUpdate expired = ServedWorld::item("i3");
  expired.expires_at_ms = kWorldStart - 1;
  world.publish({takedown, hidden, expired});
  world.publish_model(1);
  const auto shown = ids(feed(world, {.user_id = "u", .count = 10}));
  EXPECT_EQ(std::set<std::string>(shown.begin(), shown.end()),
            (std::set<std::string>{"i0", "i1", "i2"}));
  const auto ranked = world.feeds->rank({.user_id = "u", .items = {"i5", "i4", "i3", "i2"}});
  ASSERT_TRUE(ranked);
  EXPECT_EQ(ids(*ranked), (std::vector<std::string>{"i2"}));
  const auto why = reasons(*ranked);
  EXPECT_EQ(why.at("i5"), "taken_down");
  EXPECT_EQ(why.at("i4"), "hidden");
  EXPECT_EQ(why.at("i3"), "expired");
}

TEST(FeedService, AUserWhoHasSeenTheNewestItemsGetsOlderOnes) {
  WorldOptions options = plain();
  options.serving.feed.sources.fresh_max = 5;
  options.serving.feed.sources.popular_max = 5;
  options.serving.feed.sources.exploration_max = 0;
  ServedWorld world(options);
  world.publish_items(60);
  std::vector<std::string> newest;
  for (int i = 55; i < 60; ++i) newest.push_back("i" + std::to_string(i));
  world.publish({ServedWorld::impression("u", newest, kWorldStart - 1000)});
  EXPECT_EQ(feed(world, {.user_id = "u", .count = 10}).items.size(), 10U);
}

TEST(FeedService, ScoresAreThoseOfTheModelForEachItemAlone) {
  ServedWorld world(plain());
  world.publish_items(40);
  world.publish({ServedWorld::impression("u", {"i1", "i2"}, kWorldStart - 9000),
                 ServedWorld::action("u", "i1", kWorldStart - 8000)});
  world.publish_model(3);
  const FeedAnswer answer = feed(world, {.user_id = "u", .count = 20});
  ASSERT_EQ(answer.items.size(), 20U);
  EXPECT_FALSE(answer.degraded);
  EXPECT_EQ(answer.history_items, 2U);
  const auto snapshot = world.models->current();
  const auto& reader = world.state->reader();
  const auto user = reader.read_user("u", kWorldStart);
  ASSERT_TRUE(user);
  model::Workspace workspace;
  for (const FeedItem& item : answer.items) {
    const Key key = base::xxh3_64(item.item_id);
    std::vector<float> context(reader.feature_names().size());
    reader.context(*user, std::span(&key, 1), "", context);
    Candidate candidate;
    candidate.item = key;
    candidate.info = reader.item(key);
    const model::Slate slate =
        make_slate(*user, "", kWorldStart, std::span(&candidate, 1), context);
    std::vector<float> logits(3);
    ASSERT_TRUE(
        model::score(*snapshot->ranker, snapshot->model, slate, workspace, std::span(logits)));
    double utility = 0;
    const double weights[] = {1.0, 0.5, 0.2};
    for (std::size_t task = 0; task < 3; ++task) {
      const double p = 1.0 / (1.0 + std::exp(-static_cast<double>(logits[task])));
      EXPECT_NEAR(item.probabilities[task].second, p, 1e-5);
      utility += weights[task] * p;
    }
    EXPECT_NEAR(item.score, utility, 1e-5);
  }
  for (std::size_t i = 1; i < answer.items.size(); ++i) {
    EXPECT_GE(answer.items[i - 1].score, answer.items[i].score);
  }
}

TEST(FeedService, BlocksGiveTheSameFeedAsOnePass) {
  WorldOptions small = plain();
  small.serving.feed.scorer.block_items = 7;
  ServedWorld in_blocks(small);
  ServedWorld at_once(plain());
  std::vector<std::vector<std::string>> feeds;
  for (ServedWorld* world : {&in_blocks, &at_once}) {
    world->publish_items(40);
    world->publish_model(5);
    feeds.push_back(ids(feed(*world, {.user_id = "u", .count = 30})));
  }
  EXPECT_EQ(feeds[0], feeds[1]);
}

TEST(FeedService, RankMarksUnknownItemsAndDropsRepeatedOnes) {
  ServedWorld world(plain());
  world.publish_items(5);
  world.publish_model(1);
  const auto ranked =
      world.feeds->rank({.user_id = "u", .items = {"i1", "never-heard-of", "i1"}, .explain = true});
  ASSERT_TRUE(ranked);
  ASSERT_EQ(ranked->items.size(), 2U);
  for (const FeedItem& item : ranked->items) {
    EXPECT_EQ(item.known, item.item_id == "i1");
    EXPECT_EQ(item.probabilities.size(), 3U);
    EXPECT_FALSE(item.why.empty());
  }
  EXPECT_EQ(reasons(*ranked).at("i1"), "repeated");
}

TEST(FeedService, ExplainNamesTheSourceAndWhatTheHistoryShares) {
  ServedWorld world(plain());
  world.publish_items(12);
  world.publish({ServedWorld::impression("u", {"i1"}, kWorldStart - 9000),
                 ServedWorld::action("u", "i1", kWorldStart - 8000)});
  const FeedAnswer answer = feed(world, {.user_id = "u", .count = 10, .explain = true});
  bool followed = false;
  for (const FeedItem& item : answer.items) {
    ASSERT_FALSE(item.why.empty());
    EXPECT_EQ(item.why[0].substr(0, 7), "source:");
    if (item.source == "topics") followed = true;
    if (item.tags == std::vector<std::string>{"topic1"}) {
      EXPECT_TRUE(std::any_of(item.why.begin(), item.why.end(), [](const std::string& why) {
        return why.find("1 shown of topic topic1, 1 acted on") != std::string::npos;
      })) << item.item_id;
    }
  }
  EXPECT_TRUE(followed) << "the clicked topic is a source";
}

TEST(FeedService, AModelOfOtherFeaturesGivesADegradedAnswerNotAnError) {
  ServedWorld world(plain());
  world.publish_items(5);
  model::Model other = world.noisy_model(1);
  other.config.context_names.pop_back();
  other = *model::make_model(other.config);
  model::ModelStoreConfig config;
  config.dir = world.models_dir();
  auto store = *model::ModelStoreWriter::open(config);
  ASSERT_TRUE(store.publish(other, kWorldStart));
  ASSERT_TRUE(world.models->poll_once());
  const FeedAnswer answer = feed(world, {.user_id = "u", .count = 5});
  EXPECT_EQ(answer.items.size(), 5U);
  ASSERT_TRUE(answer.degraded);
  EXPECT_NE(answer.degraded->find("other context features"), std::string::npos);
}

TEST(FeedService, WritesWhatWasShownWithItsFeaturesAndPropensities) {
  WorldOptions options;
  options.serving.feed.selector.exploration_share = 0.5;
  ServedWorld world(options);
  world.publish_items(30);
  world.publish_model(2);
  const FeedAnswer answer = feed(world, {.user_id = "u", .count = 8, .surface = "home"});
  world.requests->stop();
  const auto records = world.log.records(
      {ingest::Topic::kRequests, ingest::partition_of("u", world.options.partitions)});
  ASSERT_EQ(records.size(), 1U);
  EXPECT_EQ(*records[0].key, "u");
  const auto json = boost::json::parse(*records[0].value).as_object();
  EXPECT_EQ(json.at("request_id"), boost::json::value(answer.request_id));
  EXPECT_EQ(json.at("model_version").as_int64(), 1);
  EXPECT_EQ(json.at("surface").as_string(), "home");
  EXPECT_EQ(json.at("timestamp").as_int64(), kWorldStart);
  const auto& items = json.at("items").as_array();
  ASSERT_EQ(items.size(), answer.items.size());
  const std::size_t width = world.state->reader().feature_names().size();
  for (std::size_t i = 0; i < items.size(); ++i) {
    const auto& item = items[i].as_object();
    EXPECT_EQ(item.at("item_id").as_string(), answer.items[i].item_id.c_str());
    EXPECT_EQ(item.at("propensity").to_number<double>(), answer.items[i].propensity);
    EXPECT_EQ(item.at("context").as_array().size(), width);
  }
}

TEST(FeedService, WhatWasServedIsWhatIsLearned) {
  ServedWorld world(plain());
  world.publish_items(30);
  world.publish_model(2);
  const FeedAnswer answer = feed(world, {.user_id = "u", .count = 4, .surface = "home"});
  world.requests->stop();
  const ingest::Partition p = ingest::partition_of("u", world.options.partitions);
  const auto records = world.log.records({ingest::Topic::kRequests, p});
  ASSERT_EQ(records.size(), 1U);
  ingest::Impression shown;
  shown.impression_id = "i";
  shown.user_id = "u";
  shown.time_ms = kWorldStart + 3'600'000;  // by then every decayed count is another
  shown.request_id = answer.request_id;
  for (const FeedItem& item : answer.items) shown.items.push_back({item.item_id, {}, {}, {}});
  world.publish({shown});
  ASSERT_TRUE(world.loop->close_windows().get());
  const auto entries =
      world.state->outbox().read({ingest::Topic::kExamples, p}, 1, 10, std::size_t{1} << 20U);
  ASSERT_TRUE(entries);
  ASSERT_EQ(entries->size(), 1U);
  features::Example example;
  ASSERT_TRUE(example.ParseFromString(entries->at(0).value));
  EXPECT_FALSE(example.recomputed());
  EXPECT_EQ(example.served_ms(), kWorldStart);
  EXPECT_EQ(example.time_ms(), shown.time_ms);
  const auto json = boost::json::parse(*records[0].value).as_object();
  const auto& items = json.at("items").as_array();
  ASSERT_EQ(example.candidates_size(), static_cast<int>(items.size()));
  for (std::size_t i = 0; i < items.size(); ++i) {
    const auto& logged = items[i].at("context").as_array();
    const auto& learned = example.candidates(static_cast<int>(i)).context();
    ASSERT_EQ(learned.size(), static_cast<int>(logged.size()));
    for (int f = 0; f < learned.size(); ++f) {
      EXPECT_EQ(learned[f], logged[static_cast<std::size_t>(f)].to_number<float>()) << f;
    }
  }
}

TEST(FeedService, WrongRequestsNameTheField) {
  ServedWorld world(plain());
  const auto message = [&](FeedRequest request) {
    const auto answer = world.feeds->feed(request);
    return answer ? std::string() : answer.error().message;
  };
  EXPECT_EQ(message({.user_id = "u", .count = 0}).substr(0, 6), "count:");
  EXPECT_EQ(message({.user_id = "u", .count = 201}).substr(0, 6), "count:");
  EXPECT_EQ(message({.user_id = ""}).substr(0, 5), "user:");
  EXPECT_EQ(message({.user_id = std::string(129, 'x')}).substr(0, 5), "user:");
  EXPECT_EQ(message({.user_id = "u", .exclude = std::vector<std::string>(1001, "x")}).substr(0, 8),
            "exclude:");
  const auto ranked =
      world.feeds->rank({.user_id = "u", .items = std::vector<std::string>(1001, "x")});
  ASSERT_FALSE(ranked);
  EXPECT_EQ(ranked.error().code, base::ErrorCode::kTooLarge);
}

}  // namespace
}  // namespace sirenfeed::serving
