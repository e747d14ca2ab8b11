// Windows of single action types, tasks that leave at their own, and fake negatives.
#include "features/join_windows.h"

#include "state_fixture.h"

namespace sirenfeed::features {
namespace {

constexpr base::UnixMs kWindow = 600'000;
constexpr base::UnixMs kLikeWindow = 3'600'000;

FeaturesConfig slow_likes() {
  FeaturesConfig config = StateUnderTest::default_config();
  config.join.action_windows = {{"like", kLikeWindow}};
  return config;
}
FeaturesConfig by_task() {
  FeaturesConfig config = slow_likes();
  config.join.per_task_close = true;
  return config;
}
FeaturesConfig fake_negatives() {
  FeaturesConfig config = StateUnderTest::default_config();
  config.join.fake_negatives = true;
  return config;
}
std::uint32_t labels(const Example& example, int c = 0) {
  return example.candidates(c).label_bits();
}
std::uint32_t mask(const Example& example, int c = 0) { return example.candidates(c).mask_bits(); }

std::vector<Example> of(const StateUnderTest& s, const std::string& impression) {
  std::vector<Example> result;
  for (const Example& example : s.seen.closed) {
    if (example.impression_id() == impression) result.push_back(example);
  }
  return result;
}

TEST(JoinWindows, ASlowActionTypeHoldsTheExampleUntilItsOwnWindowEnds) {
  StateUnderTest s(slow_likes());
  s.apply(impression_event("i1", "u", kStart, {"a"}));
  s.apply(impression_event("i2", "v", kStart + kWindow + 1, {"b"}));
  EXPECT_TRUE(s.seen.closed.empty());
  s.apply(action_event("u", "a", kStart + kWindow, "click", "i1"));
  s.apply(action_event("u", "a", kStart + kWindow + 1, "long_view", "i1"));  // too late for a view
  s.apply(action_event("u", "a", kStart + kLikeWindow, "like", "i1"));
  s.apply(impression_event("i3", "v", kStart + kLikeWindow + 1, {"b"}));
  ASSERT_EQ(s.seen.closed.size(), 1U);
  EXPECT_EQ(labels(s.seen.closed[0]), 0b101U);
  EXPECT_EQ(s.seen.closed[0].closed_ms(), kStart + kLikeWindow + 1);
  EXPECT_EQ(s.probe->actions_unattributed.value(), 1U);
}

TEST(JoinWindows, ATaskLeavesAtItsOwnWindowInAPartOfItsOwn) {
  StateUnderTest s(by_task());
  s.apply(impression_event("i1", "u", kStart, {"a", "b"}));
  s.apply(action_event("u", "b", kStart + 5, "click", "i1"));
  s.apply(impression_event("i2", "v", kStart + kWindow + 1, {"b"}));
  ASSERT_EQ(s.seen.closed.size(), 1U);
  EXPECT_EQ(mask(s.seen.closed[0]), 0b011U);
  EXPECT_EQ(labels(s.seen.closed[0], 1), 0b001U);
  EXPECT_EQ(s.probe->examples.value(), 0U);  // not complete
  s.reopen();                                // what has left is known after a restart
  s.apply(action_event("u", "a", kStart + kLikeWindow, "like"));
  s.apply(impression_event("i3", "v", kStart + kLikeWindow + 1, {"b"}));
  ASSERT_EQ(of(s, "i1").size(), 2U);
  const Example likes = of(s, "i1")[1];
  EXPECT_EQ(mask(likes), 0b100U);
  EXPECT_EQ(labels(likes), 0b100U);
  EXPECT_EQ(likes.revision(), 0U);
  EXPECT_NE(likes.part(), s.seen.closed[0].part());
  EXPECT_LT(likes.part(), likes.parts());
  EXPECT_EQ(s.probe->examples.value(), 1U);  // i1 complete; i2's likes are open
}

TEST(JoinWindows, ALateActionCorrectsATaskThatHasLeftWhileOthersAreOpen) {
  StateUnderTest s(by_task());
  s.apply(impression_event("i1", "u", kStart, {"a"}));
  s.apply(impression_event("i2", "v", kStart + kWindow + 1, {"b"}));
  s.apply(action_event("u", "a", kStart + 10, "click", "i1"));  // late
  s.apply(action_event("u", "a", kStart + 11, "like", "i1"));   // in time
  ASSERT_EQ(s.seen.closed.size(), 2U);
  EXPECT_EQ(s.seen.closed[1].revision(), 1U);
  EXPECT_EQ(mask(s.seen.closed[1]), 0b001U);
  s.reopen();
  s.apply(impression_event("i3", "v", kStart + kLikeWindow + 1, {"b"}));
  ASSERT_EQ(of(s, "i1").size(), 3U);
  EXPECT_EQ(mask(of(s, "i1")[2]), 0b100U);
  EXPECT_EQ(labels(of(s, "i1")[2]), 0b101U);
  s.apply(action_event("u", "a", kStart + 12, "long_view", "i1"));  // late for everything
  EXPECT_EQ(s.seen.closed.back().impression_id(), "i1");
  EXPECT_EQ(s.seen.closed.back().revision(), 2U);
}

TEST(JoinWindows, WindowsOfSeveralTasksLeaveInOrderOfTheirEnds) {
  StateUnderTest s(by_task());
  s.apply(impression_event("i1", "u", kStart, {"a"}));
  const base::UnixMs later = kStart + kLikeWindow - kWindow - 1;
  s.apply(impression_event("i2", "u", later, {"a"}));  // its clicks end before i1's likes
  s.seen.order.clear();
  s.apply(impression_event("i3", "u", kStart + 2 * kLikeWindow, {"a"}));
  EXPECT_EQ(s.seen.order,
            (std::vector<std::string>{"exposure i3", "closed i2", "closed i1", "closed i2"}));
}

TEST(FakeNegatives, AnImpressionLeavesAtOnceWithEveryCellNegative) {
  StateUnderTest s(fake_negatives());
  s.apply(impression_event("i1", "u", kStart, {"a", "b"}));
  ASSERT_EQ(s.seen.closed.size(), 1U);
  const Example& example = s.seen.closed[0];
  EXPECT_TRUE(example.fake_negative());
  EXPECT_EQ(example.revision(), 0U);
  EXPECT_EQ(mask(example), 0b111U);
  EXPECT_EQ(labels(example), 0U);
  EXPECT_EQ(example.closed_ms(), kStart);
  EXPECT_EQ(s.probe->examples.value(), 1U);
  EXPECT_EQ(s.seen.order, (std::vector<std::string>{"exposure i1", "closed i1"}));
}

TEST(FakeNegatives, AnActionCorrectsItsCellWhetherInTimeOrLate) {
  StateUnderTest s(fake_negatives());
  s.apply(impression_event("i1", "u", kStart, {"a", "b"}));
  s.apply(action_event("u", "b", kStart + 10, "click", "i1"));
  s.apply(action_event("u", "b", kStart + 20, "click"));  // known already
  s.reopen();
  s.apply(action_event("u", "a", kStart + 30, "like"));
  s.apply(impression_event("i2", "v", kStart + kWindow + 1, {"c"}));  // ends the window: no example
  s.apply(action_event("u", "a", kStart + 40, "click", "i1"));        // late
  std::vector<std::tuple<std::string, std::uint32_t, std::uint32_t, std::uint32_t>> seen;
  for (const Example& e : s.seen.closed) {
    seen.emplace_back(e.impression_id(), e.revision(), mask(e, 0),
                      e.candidates_size() > 1 ? mask(e, 1) : 0U);
    EXPECT_TRUE(e.fake_negative());
  }
  EXPECT_EQ(
      seen,
      (decltype(seen){
          {"i1", 0, 7, 7}, {"i1", 1, 0, 1}, {"i1", 2, 4, 0}, {"i2", 0, 7, 0}, {"i1", 3, 1, 0}}));
  EXPECT_EQ(labels(s.seen.closed[1], 1), 1U);
  EXPECT_EQ(s.probe->actions_attributed.value(), 1U);  // since the restart
  EXPECT_EQ(s.probe->actions_late.value(), 1U);
  EXPECT_EQ(s.probe->corrections.value(), 2U);
}

TEST(FakeNegatives, InputsOfACorrectionAreThoseOfTheExposure) {
  StateUnderTest s(fake_negatives());
  s.apply(impression_event("i0", "u", kStart - 100, {"z"}));
  s.apply(impression_event("i1", "u", kStart, {"a"}));
  const std::size_t first = s.seen.closed.size() - 1;
  s.apply(action_event("u", "z", kStart + 1, "click", "i0"));
  s.apply(action_event("u", "a", kStart + 10, "click", "i1"));
  Example before = s.seen.closed[first];
  Example after = s.seen.closed.back();
  ASSERT_EQ(after.impression_id(), "i1");
  for (Example* example : {&before, &after}) {
    example->set_revision(0);
    example->set_sequence(0);
    example->set_closed_ms(0);
    for (auto& candidate : *example->mutable_candidates()) {
      candidate.clear_mask_bits();
      candidate.clear_label_bits();
    }
  }
  EXPECT_EQ(before.SerializeAsString(), after.SerializeAsString());
}

TEST(FakeNegatives, ImpressionsOpenedWhileWaitingLeaveAtTheEndOfTheirWindow) {
  TempDir folder;
  FeaturesConfig config = StateUnderTest::default_config();
  config.store.dir = folder.path();
  {
    StateUnderTest waiting(config);
    waiting.apply(impression_event("i1", "u", kStart, {"a"}));
  }
  config.join.fake_negatives = true;
  StateUnderTest s(config);
  auto click = s.records.of(action_event("u", "a", kStart + 1, "click", "i1"));
  s.apply({click});
  EXPECT_TRUE(s.seen.closed.empty());
  ASSERT_TRUE(s.state->close_windows(0));
  ASSERT_EQ(s.seen.closed.size(), 1U);
  EXPECT_FALSE(s.seen.closed[0].fake_negative());
  EXPECT_EQ(labels(s.seen.closed[0]), 1U);
}

TEST(JoinConfig, NamesTheWindowThatIsWrong) {
  const auto message = [](JoinConfig config) {
    const auto valid = config.validate();
    return valid ? std::string("valid") : valid.error().message;
  };
  JoinConfig config;
  config.action_windows = {{"like", 0}};
  EXPECT_NE(message(config).find("join.action_window_ms"), std::string::npos);
  config.action_windows = {{"like", 1}, {"like", 2}};
  EXPECT_NE(message(config).find("join.action_window_ms"), std::string::npos);
  config.action_windows = {{"like", 4 * base::kMsPerDay}};
  EXPECT_NE(message(config).find("join.dedup_horizon_ms"), std::string::npos);
  config.action_windows = {};
  config.fake_negatives = config.per_task_close = true;
  EXPECT_NE(message(config).find("join.fake_negatives"), std::string::npos);
}

}  // namespace
}  // namespace sirenfeed::features
