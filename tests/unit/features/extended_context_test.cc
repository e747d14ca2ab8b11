// The extended set: what it keeps, when, and that serving and examples see the same. Its values
// against an independent computation: tests/e2e/extended_features_test.py.
#include <cmath>
#include <set>

#include "state_fixture.h"

namespace sirenfeed::features {
namespace {

FeaturesConfig extended_config() {
  FeaturesConfig config = StateUnderTest::default_config();
  config.context.extended = true;
  return config;
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double logit(double p) { return std::log(p / (1 - p)); }

TEST(ExtendedContext, SixtyFourNamesFollowTheBaseSet) {
  ContextConfig config;
  config.extended = true;
  const auto names = context_feature_names(config);
  ASSERT_EQ(names.size(), 79U + 64U);
  EXPECT_EQ(std::set<std::string>(names.begin(), names.end()).size(), names.size());
  const auto base = base_context_names(config);
  EXPECT_TRUE(std::equal(base.begin(), base.end(), names.begin()));
  EXPECT_EQ(names[79], "ext.p0");
  EXPECT_EQ(names[79 + 3], "ext.surface.ctr_1d");
  EXPECT_EQ(names.back(), "ext.user.ctr_1h");
  config.extended = false;
  EXPECT_EQ(context_feature_names(config), base);
}

TEST(ExtendedContext, AnExposureTakesWhatWasExpectedAndItsClickGivesOne) {
  StateUnderTest s(extended_config());
  s.apply(impression_event("i1", "u", kStart, {"a"}, "home"));
  const Example& first = s.seen.exposures.at(0);
  const double g = 9.0 / 20;
  EXPECT_NEAR(s.feature(first, "ext.p0"), logit(g), 1e-5);
  EXPECT_NEAR(s.feature(first, "ext.q0"), logit(g), 1e-5);
  EXPECT_EQ(s.feature(first, "ext.user.residual_7d"), 0);
  s.apply(action_event("u", "a", kStart + 1'000, "click", "i1"));
  s.apply(action_event("u", "a", kStart + 1'500, "click", "i1"));  // counts once
  s.apply(impression_event("i2", "u", kStart + 2'000, {"a"}, "home"));
  const Example& second = s.seen.exposures.at(1);
  // Two seconds of decay are below the tolerance.
  EXPECT_NEAR(s.feature(second, "ext.user.residual_7d"), (1 - g) / (1 + 4), 1e-4);
  EXPECT_NEAR(s.feature(second, "ext.item.residual_7d"), (1 - g) / (1 + 10), 1e-4);
  const double now = 10.0 / 21;  // g with one exposure and its click
  const double item = (1 + 10 * now) / 11;
  const double surface = (1 + 20 * now) / 21;
  const double prior = sigmoid(logit(item) + logit(surface) - logit(now));
  const double p0 = (1 + 10 * prior) / 11;
  EXPECT_NEAR(s.feature(second, "ext.p0"), logit(p0), 1e-4);
  const double user = (1 - g) / 5;
  const double user_tag = (1 - g) / 3;
  EXPECT_NEAR(s.feature(second, "ext.p_joint"), logit(p0) + 4.5 * user + 2 * user_tag, 1e-4);
  EXPECT_NEAR(s.feature(second, "ext.q0"), logit(surface + user), 1e-4);
  EXPECT_NEAR(s.feature(second, "ext.user.mean_p0_last20"), logit(g), 1e-4);
  s.apply(impression_event("i3", "u", kStart + 3'000, {"b"}, "home"));
  const double left = 1 - g - p0;  // of the user, after the second exposure
  EXPECT_NEAR(s.feature(s.seen.exposures.at(2), "ext.user.residual_7d"), left / (2 + 4), 1e-4);
  EXPECT_NEAR(s.feature(s.seen.exposures.at(2), "ext.user.mean_p0_last20"), logit((g + p0) / 2),
              1e-4);
  EXPECT_NEAR(s.feature(s.seen.exposures.at(2), "ext.user.skips_in_row"), std::log(2.0), 1e-6);
}

TEST(ExtendedContext, EachCandidateOfASlateHasResidualsOfItsOwn) {
  StateUnderTest s(extended_config());
  s.apply(item_event("a", kStart - 1, {"t"}, "p"));
  s.apply(item_event("b", kStart - 1, {"w"}, "q"));
  s.apply(impression_event("i1", "u", kStart, {"a", "b"}, "home"));
  s.apply(action_event("u", "b", kStart + 1'000, "click", "i1"));
  s.apply(impression_event("i2", "v", kStart + 2'000, {"a", "b"}, "home"));
  const Example& example = s.seen.exposures.at(1);
  EXPECT_NEAR(s.feature(example, "ext.author.residual_7d", 0), -.45 / 11, 1e-4);
  EXPECT_NEAR(s.feature(example, "ext.author.residual_7d", 1), .55 / 11, 1e-4);
  EXPECT_NEAR(s.feature(example, "ext.tagset.residual_1d", 1), .55 / 21, 1e-4);
  EXPECT_NEAR(s.feature(example, "ext.surface.residual_1d", 1), .1 / 22, 1e-4);
}

TEST(ExtendedContext, AClickCountsInTheHourAndOnTheTagsOfItsExposure) {
  StateUnderTest s(extended_config());
  const base::UnixMs before_the_hour = kStart / 3'600'000 * 3'600'000 + 3'599'000;
  s.apply(item_event("a", kStart - 1, {"t", "w"}, "p"));
  s.apply(item_event("same_set", kStart - 1, {"w", "t"}, "p2"));
  s.apply(item_event("subset", kStart - 1, {"t"}, "p3"));
  s.apply(impression_event("i1", "u", before_the_hour, {"a"}, "home"));
  s.apply(item_event("a", before_the_hour + 1, {"other"}, "p"));
  s.apply(action_event("u", "a", before_the_hour + 2'000, "click", "i1"));
  const auto at = [&](base::UnixMs time, const char* item, const char* feature) {
    s.apply(impression_event(std::string(item) + std::to_string(time), "v", time, {item}, "home"));
    return s.feature(s.seen.exposures.back(), feature);
  };
  const base::UnixMs next_hour = before_the_hour + 3'000;
  EXPECT_GT(at(next_hour, "same_set", "ext.tagset.residual_7d"), 0);
  EXPECT_EQ(at(next_hour + 1, "subset", "ext.tagset.residual_7d"), 0);
  const char* rate = "ext.hour_surface.ctr_7d";
  const double elsewhere = at(next_hour + 2, "x", rate);
  const double same_hour = at(before_the_hour + 86'400'000, "x", rate);
  EXPECT_GT(same_hour, elsewhere);  // the click went where its exposure was
}

TEST(ExtendedContext, DurationsGiveBucketsAndMeansOfWhatTheUserLiked) {
  FeaturesConfig config = extended_config();
  config.context.duration_field = "duration_ms";
  config.context.duration_unit_s = 0.001;
  StateUnderTest s(config);
  const auto with_duration = [](const char* id, double ms) {
    ingest::ItemUpdate item = item_event(id, kStart - 1);
    item.numeric = {{"duration_ms", ms}};
    return item;
  };
  s.apply(with_duration("a", 60'000));
  s.apply(with_duration("b", 8'000));
  s.apply(impression_event("i1", "u", kStart, {"a", "b", "bare"}, "home"));
  s.apply(action_event("u", "a", kStart + 1'000, "click", "i1"));
  s.apply(action_event("u", "a", kStart + 1'000, "long_view", "i1"));
  s.apply(action_event("u", "b", kStart + 1'000, "click", "i1"));
  s.apply(impression_event("i2", "u", kStart + 2'000, {"a", "bare"}, "home"));
  const Example& example = s.seen.exposures.at(1);
  const double ln = std::log(60'000.0);
  EXPECT_NEAR(s.feature(example, "ext.item.log_duration"), ln, 1e-5);
  EXPECT_NEAR(s.feature(example, "ext.item.log_duration_minus_user_clicked"),
              ln - (ln + std::log(8'000.0) + 11) / 3, 1e-5);
  EXPECT_NEAR(s.feature(example, "ext.item.log_duration_minus_user_long_viewed"),
              ln - (ln + 11) / 2, 1e-5);
  for (const char* name : {"ext.item.log_duration", "ext.item.log_duration_minus_user_clicked",
                           "ext.item.log_duration_minus_user_long_viewed"}) {
    EXPECT_EQ(s.feature(example, name, 1), 0) << name;
  }
  // An item without duration does not count as one of the shortest.
  EXPECT_NE(s.feature(example, "ext.bucket_surface.ctr_7d", 0),
            s.feature(example, "ext.bucket_surface.ctr_7d", 1));
}

TEST(ExtendedContext, ServingComputesTheVeryFloatsOfTheExampleAlsoAfterARestart) {
  StateUnderTest s(extended_config());
  std::vector<std::string> ids;
  for (int i = 0; i < 120; ++i) {  // enough that the user's sections have keys of their own
    ids.push_back("item-" + std::to_string(i));
    s.apply(item_event(ids.back(), kStart - 1, {"tag-" + std::to_string(i % 50)},
                       "author-" + std::to_string(i)));
  }
  base::UnixMs now = kStart;
  for (std::size_t i = 0; i < ids.size(); ++i, now += 977'000) {
    const std::string id = "i" + std::to_string(i);
    s.apply(impression_event(id, "u", now, {ids[i], ids[(i + 7) % ids.size()]}, "home"));
    if (i % 3 == 0) s.apply(action_event("u", ids[i], now + 1'000, "click", id));
    if (i % 4 == 0) s.apply(action_event("u", ids[i], now + 2'000, "long_view", id));
  }
  const std::string before = s.canonical();
  s.reopen();
  EXPECT_EQ(s.canonical(), before);
  EXPECT_NE(before.find("user u residuals"), std::string::npos);
  const auto user = s.reader().read_user("u", now);
  ASSERT_TRUE(user);
  const std::vector<Key> items = {base::xxh3_64(ids[0]), base::xxh3_64(ids[55])};
  const auto& names = s.reader().feature_names();
  std::vector<float> served(2 * names.size());
  s.reader().context(*user, items, "home", served);
  s.apply(impression_event("last", "u", now, {ids[0], ids[55]}, "home"));
  const Example& example = s.seen.exposures.back();
  for (int c = 0; c < 2; ++c) {
    ASSERT_EQ(example.candidates(c).context_size(), static_cast<int>(names.size()));
    for (std::size_t f = 0; f < names.size(); ++f) {
      EXPECT_EQ(served[static_cast<std::size_t>(c) * names.size() + f],
                example.candidates(c).context(static_cast<int>(f)))
          << names[f] << " of candidate " << c;
    }
  }
}

TEST(ExtendedContext, ARestartWhileAWindowIsOpenLosesNoKeyOfItsClick) {
  StateUnderTest disturbed(extended_config());
  StateUnderTest calm(extended_config());
  for (StateUnderTest* s : {&disturbed, &calm}) {
    s->apply(item_event("a", kStart - 1, {"t", "w"}, "p"));
    s->apply(impression_event("i1", "u", kStart, {"a"}, "home"));
    s->apply(item_event("a", kStart + 1, {"other"}, "q"));
    if (s == &disturbed) s->reopen();
    s->apply(action_event("u", "a", kStart + 1'000, "click", "i1"));
  }
  EXPECT_EQ(disturbed.canonical(), calm.canonical());
}

TEST(ExtendedContext, ATakedownForgetsTheItemsResidualsAndAnErasureTheUsers) {
  StateUnderTest s(extended_config());
  s.apply(impression_event("i1", "u", kStart, {"a"}, "home"));
  s.apply(action_event("u", "a", kStart + 1'000, "click", "i1"));
  s.apply(takedown_event("a", kStart + 2'000));
  s.apply(erase_event("u", kStart + 2'000));
  s.apply(impression_event("i2", "u", kStart + 3'000, {"a"}, "home"));
  const Example& example = s.seen.exposures.at(1);
  for (const char* name :
       {"ext.item.residual_7d", "ext.item_surface.residual_7d", "ext.user.residual_7d",
        "ext.user_surface.residual_7d", "ext.user.shown_7d", "ext.user.skips_in_row"}) {
    EXPECT_EQ(s.feature(example, name), 0) << name;
  }
  EXPECT_NE(s.feature(example, "ext.surface.residual_1d"), 0);  // everybody's stays
}

TEST(ExtendedContext, AStoreOfTheOtherKindIsRefusedAndSaysWhich) {
  for (const bool extended : {false, true}) {
    TempDir folder;
    FeaturesConfig config = StateUnderTest::default_config();
    config.store.dir = folder.path();
    config.context.extended = extended;
    base::MetricsRegistry registry;
    FeaturesProbe probe(registry);
    { ASSERT_TRUE(FeatureState::open(config, probe)); }
    ASSERT_TRUE(FeatureState::open(config, probe));
    config.context.extended = !extended;
    const auto opened = FeatureState::open(config, probe);
    ASSERT_FALSE(opened);
    EXPECT_EQ(opened.error().code, base::ErrorCode::kCorrupt);
    EXPECT_NE(opened.error().message.find("--features.extended"), std::string::npos)
        << opened.error().message;
  }
}

TEST(ExtendedContext, OffKeepsNothingOfIt) {
  StateUnderTest s;
  s.apply(impression_event("i1", "u", kStart, {"a"}, "home"));
  s.apply(action_event("u", "a", kStart + 1'000, "click", "i1"));
  const auto families = s.state->families();
  ASSERT_TRUE(families);
  for (const FamilySize& family : *families) EXPECT_NE(family.family, "residuals");
  EXPECT_EQ(s.canonical().find("residual"), std::string::npos);
}

}  // namespace
}  // namespace sirenfeed::features
