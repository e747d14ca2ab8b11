// Topic requests as an input of the join: examples carry what the model saw.
#include <cmath>
#include <functional>

#include "features/example_builder.h"
#include "features/served_inputs.h"
#include "state_fixture.h"

namespace sirenfeed::features {
namespace {

constexpr base::UnixMs kWindow = 600'000;

/// What serving would write of `items` for the user as of now.
ingest::ServedRequest request_of(const StateUnderTest& s, std::string id, std::string user,
                                 base::UnixMs time, const std::vector<std::string>& items) {
  const auto snapshot = s.reader().read_user(user, time);
  EXPECT_TRUE(snapshot);
  std::vector<ServedItem> served;
  std::vector<Key> keys;
  for (const std::string& item : items) {
    served.push_back({base::xxh3_64(item), s.reader().item(std::string_view(item)), 0.25});
    keys.push_back(served.back().item);
  }
  std::vector<float> context(items.size() * s.reader().feature_names().size());
  s.reader().context(*snapshot, keys, "home", context);
  ingest::ServedRequest request;
  request.request_id = std::move(id);
  request.user_id = std::move(user);
  request.time_ms = time;
  request.inputs = s.reader().served_inputs(*snapshot, "home", served, context);
  return request;
}
ingest::Impression naming(ingest::Impression event, std::string request) {
  event.request_id = std::move(request);
  return event;
}

/// u clicked b; then a and b were served by r, and u clicked z before the slate was seen.
struct Served {
  explicit Served(const FeaturesConfig& config = StateUnderTest::default_config()) : s(config) {
    s.apply(item_event("a", kStart - 500, {"t"}, "p"));
    s.apply(impression_event("i0", "u", kStart - 400, {"b", "z"}, "home"));
    s.apply(action_event("u", "b", kStart - 300, "click", "i0"));
    request = request_of(s, "r", "u", kStart, {"a", "b"});
  }
  void change() {
    s.apply(action_event("u", "z", kStart + 100, "click", "i0"));
    s.apply(item_event("a", kStart + 100, {"other"}, "q"));
  }
  void show() {
    s.apply(naming(impression_event("i1", "u", kStart + 1'000, {"b", "a"}, "home"), "r"));
  }
  StateUnderTest s;
  ingest::ServedRequest request;
};

void expect_served(const Example& example, const ingest::ServedRequest& request) {
  const auto served = decode_served_inputs(request.inputs);
  ASSERT_TRUE(served);
  EXPECT_FALSE(example.recomputed());
  EXPECT_EQ(example.served_ms(), request.time_ms);
  EXPECT_EQ(example.history().SerializeAsString(), served->history().SerializeAsString());
  ASSERT_EQ(example.candidates_size(), 2);
  for (int c = 0; c < 2; ++c) {
    const Candidate& to = example.candidates(c);
    const Candidate& from = served->candidates(1 - c);
    EXPECT_EQ(to.item(), from.item());
    EXPECT_EQ(to.author(), from.author());
    EXPECT_EQ(to.propensity(), 0.25);
    EXPECT_EQ(std::vector(to.tags().begin(), to.tags().end()),
              std::vector(from.tags().begin(), from.tags().end()));
    EXPECT_EQ(std::vector(to.context().begin(), to.context().end()),
              std::vector(from.context().begin(), from.context().end()));
  }
}

TEST(Requests, AnExampleCarriesWhatTheModelSawWhenItWasServed) {
  Served w;
  w.s.apply(w.request);
  w.change();
  w.show();
  const Example& exposure = w.s.seen.exposures.back();
  expect_served(exposure, w.request);
  EXPECT_EQ(exposure.time_ms(), kStart + 1'000);
  ASSERT_TRUE(w.s.state->close_windows(0));
  expect_served(w.s.seen.closed.back(), w.request);
  EXPECT_EQ(w.s.probe->inputs_served.value(), 1U);
  EXPECT_EQ(w.s.probe->inputs_unnamed.value(), 1U);  // i0
}

TEST(Requests, TheDifferenceBetweenServedAndRecomputedIsMeasured) {
  Served changed;
  changed.s.apply(changed.request);
  changed.change();
  changed.show();
  EXPECT_EQ(changed.s.metric("sirenfeed_features_served_difference_count"), 1);
  EXPECT_GT(changed.s.metric("sirenfeed_features_served_difference_sum"), 1e-3);
  EXPECT_EQ(changed.s.probe->served_histories.value(), 1U);
  Served same;
  same.s.apply(same.request);
  same.s.apply(naming(impression_event("i1", "u", kStart, {"b", "a"}, "home"), "r"));
  EXPECT_EQ(same.s.metric("sirenfeed_features_served_difference_count"), 1);
  EXPECT_EQ(same.s.metric("sirenfeed_features_served_difference_sum"), 0);
  EXPECT_EQ(same.s.probe->served_histories.value(), 0U);
}

TEST(Requests, ARequestThatComesAfterItsImpressionIsStillUsed) {
  for (const bool restart : {false, true}) {
    Served w;
    w.change();
    w.show();
    EXPECT_TRUE(w.s.seen.exposures.back().recomputed());
    if (restart) w.s.reopen();
    w.s.apply(w.request);
    if (restart) w.s.reopen();
    ASSERT_TRUE(w.s.state->close_windows(0));
    expect_served(w.s.seen.closed.back(), w.request);
  }
}

TEST(Requests, BothInOneBatchAreJoinedInEitherOrder) {
  for (const bool request_first : {false, true}) {
    Served w;
    const auto request = w.s.records.of(w.request);
    const auto shown = w.s.records.of(
        naming(impression_event("i1", "u", kStart + 1'000, {"b", "a"}, "home"), "r"));
    const auto closing = w.s.records.of(impression_event("i2", "v", kStart + 3 * kWindow, {"c"}));
    w.s.apply(request_first ? std::vector{request, shown, closing}
                            : std::vector{shown, request, closing});
    ASSERT_GE(w.s.seen.closed.size(), 2U);
    expect_served(w.s.seen.closed[1], w.request);
    w.s.apply(action_event("u", "a", kStart + 1'100, "click", "i1"));  // late
    ASSERT_EQ(w.s.seen.closed.back().revision(), 1U);
    expect_served(w.s.seen.closed.back(), w.request);
  }
}

TEST(Requests, WhatCannotBeUsedIsRecomputedAndCounted) {
  Served w;
  w.s.apply(w.request);
  w.s.apply(naming(impression_event("i1", "u", kStart + 1, {"a", "not-served"}), "r"));
  w.s.apply(naming(impression_event("i2", "u", kStart + 2, {"a"}), "unknown"));
  w.s.apply(naming(impression_event("i3", "v", kStart + 3, {"a"}), "r"));  // another user's
  auto other = w.request;
  other.request_id = "other";
  Example inputs = *decode_served_inputs(other.inputs);
  inputs.set_context_schema(7);
  other.inputs = inputs.SerializeAsString();
  w.s.apply(other);
  w.s.apply(naming(impression_event("i4", "u", kStart + 4, {"a"}), "other"));
  ASSERT_TRUE(w.s.state->close_windows(0));
  for (const Example& example : w.s.seen.closed) {
    EXPECT_TRUE(example.recomputed());
    EXPECT_EQ(example.served_ms(), 0);
    EXPECT_EQ(example.version(), 1U);
  }
  EXPECT_EQ(w.s.probe->inputs_unmatched.value(), 4U);
  EXPECT_EQ(w.s.probe->requests_unfit.value(), 2U);
}

TEST(Requests, MalformedOrNewerInputsAreAsIfThereWereNone) {
  const std::vector<std::pair<const char*, std::function<void(Example&)>>> damages = {
      {"a newer version", [](Example& e) { e.set_version(kExampleVersion + 1); }},
      {"a feature that is no number",
       [](Example& e) { e.mutable_candidates(0)->set_context(0, std::nanf("")); }},
      {"an infinite feature of another candidate",
       [](Example& e) { e.mutable_candidates(1)->set_context(1, INFINITY); }},
      {"an infinite propensity",
       [](Example& e) { e.mutable_candidates(0)->set_propensity(INFINITY); }},
      {"a column that is short",
       [](Example& e) { e.mutable_history()->mutable_author()->RemoveLast(); }},
      {"a column that is long", [](Example& e) { e.mutable_history()->add_time_delta_ms(1); }},
      {"more tags than it has", [](Example& e) { e.mutable_history()->set_tag_count(0, 99); }},
      {"an unknown surface", [](Example& e) { e.mutable_history()->set_surface(0, 99); }},
      {"times that overflow",
       [](Example& e) {
         HistoryColumns& columns = *e.mutable_history();
         for (int i = 0; i < 2; ++i) {
           columns.add_item(1);
           columns.add_author(0);
           columns.add_time_delta_ms(INT64_MAX);
           columns.add_action_bits(0);
           columns.add_tag_count(0);
           columns.add_surface(0);
         }
       }},
      {"a longer history",
       [](Example& e) {
         HistoryColumns& columns = *e.mutable_history();
         while (columns.item_size() <= 128) {
           columns.add_item(1);
           columns.add_author(0);
           columns.add_time_delta_ms(0);
           columns.add_action_bits(0);
           columns.add_tag_count(0);
           columns.add_surface(0);
         }
       }},
  };
  ASSERT_EQ(StateUnderTest::default_config().example.history_max, 128U);
  for (const bool request_first : {true, false}) {
    for (const auto& [what, damage] : damages) {
      SCOPED_TRACE(what);
      Served w;
      Example inputs = *decode_served_inputs(w.request.inputs);
      ASSERT_GT(inputs.history().item_size(), 0);
      damage(inputs);
      w.request.inputs = inputs.SerializeAsString();
      if (request_first) w.s.apply(w.request);
      w.show();
      if (!request_first) w.s.apply(w.request);
      ASSERT_TRUE(w.s.state->close_windows(0));
      EXPECT_TRUE(w.s.seen.closed.back().recomputed());
      EXPECT_EQ(w.s.seen.closed.back().history().item_size(), 2);
      EXPECT_EQ(w.s.probe->requests_unfit.value(), 1U);
      EXPECT_EQ(w.s.probe->rejected_total(), 0U);
      EXPECT_EQ(w.s.probe->inputs_served.value(), 0U);
    }
  }
}

TEST(Requests, AreHeldOverARestartAndReadAgainChangeNothing) {
  Served w;
  const auto record = w.s.records.of(w.request);
  w.s.apply({record});
  const std::string before = w.s.canonical();
  w.s.reopen();
  w.s.apply({record});  // the same offset
  EXPECT_EQ(w.s.probe->replayed.value(), 1U);
  EXPECT_EQ(w.s.canonical(), before);
  w.s.apply(w.request);  // the same request at another offset
  EXPECT_EQ(w.s.probe->duplicate.value(), 1U);
  w.show();
  expect_served(w.s.seen.exposures.back(), w.request);
}

TEST(Requests, LeaveOnceNoImpressionCanNameThemAnyMore) {
  Served w;
  w.s.apply(w.request);
  EXPECT_EQ(w.s.probe->held_requests.value(), 1);
  w.s.apply(impression_event("i1", "v", kStart + kWindow, {"c"}));
  EXPECT_EQ(w.s.probe->held_requests.value(), 1);
  w.s.apply(impression_event("i2", "v", kStart + kWindow + 1, {"c"}));
  EXPECT_EQ(w.s.probe->held_requests.value(), 0);
  EXPECT_EQ(w.s.canonical().find("\nQ0 "), std::string::npos);
  auto late = w.request;
  late.request_id = "late";
  w.s.apply(late);
  EXPECT_EQ(w.s.probe->requests_late.value(), 1U);
  EXPECT_EQ(w.s.probe->rejected_total(), 0U);
  EXPECT_EQ(w.s.probe->held_requests.value(), 0);
}

TEST(Requests, TheirNumberIsBounded) {
  FeaturesConfig config = StateUnderTest::default_config();
  config.join.requests_held_max = 3;
  Served w(config);
  for (int i = 0; i < 10; ++i) {
    auto request = w.request;
    request.request_id = "r" + std::to_string(i);
    request.time_ms = kStart + i;
    w.s.apply(request);
  }
  EXPECT_EQ(w.s.probe->held_requests.value(), 3);
  EXPECT_EQ(w.s.probe->requests_evicted.value(), 7U);
  w.s.apply(naming(impression_event("i1", "u", kStart + 20, {"a"}), "r6"));
  EXPECT_TRUE(w.s.seen.exposures.back().recomputed());
  w.s.apply(naming(impression_event("i2", "u", kStart + 20, {"a"}), "r7"));
  EXPECT_FALSE(w.s.seen.exposures.back().recomputed());
}

TEST(Requests, AnErasureRemovesThemStoredOrNot) {
  Served w;
  const auto stored = w.s.records.of(w.request);
  auto second = w.request;
  second.request_id = "r2";
  const auto fresh = w.s.records.of(second);
  auto stray = w.request;
  stray.request_id = "r3";
  w.s.apply({stored});
  w.s.apply({fresh, w.s.records.of(erase_event("u", kStart + 1))});
  EXPECT_EQ(w.s.probe->held_requests.value(), 0);
  EXPECT_EQ(w.s.canonical().find("\nQ0 "), std::string::npos);
  EXPECT_EQ(w.s.canonical().find("\nq0 "), std::string::npos);
  w.s.apply(stray);  // of before the erasure
  EXPECT_EQ(w.s.probe->held_requests.value(), 0);
}

TEST(Requests, DoNotMoveTheWatermarkOrTheClock) {
  base::EventClock clock;
  StateUnderTest s;
  s.wiring.event_clock = &clock;
  s.reopen();
  s.apply(impression_event("i1", "u", kStart, {"a"}));
  auto request = request_of(s, "r", "u", kStart + 100 * base::kMsPerDay, {"a"});
  s.apply(request);
  EXPECT_TRUE(s.seen.closed.empty());
  EXPECT_EQ(clock.now_ms(), kStart);
}

TEST(Requests, OtherBytesAsInputsAreADeadLetter) {
  StateUnderTest s;
  ingest::ServedRequest request;
  request.request_id = "r";
  request.user_id = "u";
  request.time_ms = kStart;
  request.inputs = "\xff\xff no example";
  s.apply(request);
  EXPECT_EQ(s.probe->rejected_total(), 1U);
  request.inputs.clear();  // no model answered
  s.apply(request);
  EXPECT_EQ(s.probe->applied.value(), 1U);
  EXPECT_EQ(s.probe->held_requests.value(), 0);
}

TEST(Requests, WithFakeNegativesARequestThatComesTooLateChangesNoRevision) {
  FeaturesConfig config = StateUnderTest::default_config();
  config.join.fake_negatives = true;
  Served w(config);
  w.show();
  w.s.apply(w.request);
  w.s.apply(action_event("u", "a", kStart + 2'000, "click", "i1"));
  ASSERT_EQ(w.s.seen.closed.back().revision(), 1U);
  EXPECT_TRUE(w.s.seen.closed.back().recomputed());
}

}  // namespace
}  // namespace sirenfeed::features
