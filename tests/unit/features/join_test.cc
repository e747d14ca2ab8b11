// The join of impressions and actions, and what closes a window.
#include "state_fixture.h"

namespace sirenfeed::features {
namespace {

constexpr base::UnixMs kWindow = 600'000;

std::uint32_t labels(const Example& example, int c = 0) {
  return example.candidates(c).label_bits();
}

TEST(Join, AnActionWithinTheWindowIsALabelAndOneAfterItIsNot) {
  StateUnderTest s;
  s.apply(impression_event("i1", "u", kStart, {"a"}));
  s.apply(impression_event("i2", "u", kStart + 1, {"b"}));
  s.apply(action_event("u", "a", kStart + kWindow, "click", "i1"));
  s.apply(action_event("u", "b", kStart + 1 + kWindow + 1, "click", "i2"));
  s.apply(impression_event("i3", "u", kStart + kWindow + 2, {"c"}));
  ASSERT_EQ(s.seen.closed.size(), 2U);
  EXPECT_EQ(labels(s.seen.closed[0]), 1U);
  EXPECT_EQ(labels(s.seen.closed[1]), 0U);
  EXPECT_EQ(s.probe->actions_attributed.value(), 1U);
  EXPECT_EQ(s.probe->actions_unattributed.value(), 1U);
}

TEST(Join, AWindowStaysOpenWhileTheWatermarkIsAtItsEnd) {
  StateUnderTest s;
  s.apply(impression_event("i1", "u", kStart, {"a"}));
  s.apply(impression_event("i2", "v", kStart + kWindow, {"a"}));
  EXPECT_TRUE(s.seen.closed.empty());
  s.apply(impression_event("i3", "v", kStart + kWindow + 1, {"a"}));
  ASSERT_EQ(s.seen.closed.size(), 1U);
  EXPECT_EQ(s.seen.closed[0].impression_id(), "i1");
  EXPECT_EQ(s.seen.closed[0].closed_ms(), kStart + kWindow + 1);
}

TEST(Join, AllowedLatenessHoldsTheWatermarkBack) {
  FeaturesConfig config = StateUnderTest::default_config();
  config.join.lateness_max_ms = 60'000;
  StateUnderTest s(config);
  s.apply(impression_event("i1", "u", kStart, {"a"}));
  s.apply(impression_event("i2", "v", kStart + kWindow + 60'000, {"a"}));
  EXPECT_TRUE(s.seen.closed.empty());
  s.apply(impression_event("i3", "v", kStart + kWindow + 60'001, {"a"}));
  EXPECT_EQ(s.seen.closed.size(), 1U);
}

TEST(Join, WindowsThatOneRecordClosesLeaveInOrderAfterItsExposure) {
  StateUnderTest s;
  s.apply(impression_event("i1", "u", kStart + 5, {"a"}));
  s.apply(impression_event("i2", "u", kStart + 5, {"b"}));
  s.apply(impression_event("i3", "u", kStart + 2, {"c"}));  // late
  s.apply(impression_event("i4", "u", kStart + 10 + kWindow, {"d"}));
  EXPECT_EQ(s.seen.order,
            (std::vector<std::string>{"exposure i1", "exposure i2", "exposure i3", "exposure i4",
                                      "closed i3", "closed i1", "closed i2"}));
  EXPECT_EQ(s.seen.closed[0].sequence(), 1U);
  EXPECT_EQ(s.seen.closed[2].sequence(), 3U);
}

TEST(Join, AnActionWithoutImpressionIdAnswersTheNewestThatShowsTheItem) {
  StateUnderTest s;
  s.apply(impression_event("old", "u", kStart, {"a"}));
  s.apply(impression_event("new", "u", kStart + 1'000, {"a"}));
  s.apply(impression_event("other", "u", kStart + 2'000, {"b"}));
  s.apply(action_event("u", "a", kStart + 3'000));
  ASSERT_TRUE(s.state->close_windows(0));
  ASSERT_EQ(s.seen.closed.size(), 3U);
  EXPECT_EQ(labels(s.seen.closed[0]), 0U);
  EXPECT_EQ(labels(s.seen.closed[1]), 1U);
  EXPECT_EQ(labels(s.seen.closed[2]), 0U);
}

TEST(Join, ImpressionsOfOneMillisecondKeepTheirOwnLabels) {
  StateUnderTest s;
  s.apply(impression_event("f:1", "u", kStart, {"a"}));
  s.apply(impression_event("f:2", "u", kStart, {"a"}));
  s.apply(action_event("u", "a", kStart + 1'000, "click", "f:2"));
  s.apply(action_event("u", "a", kStart + 2'000, "long_view", "f:1"));
  ASSERT_TRUE(s.state->close_windows(0));
  EXPECT_EQ(labels(s.seen.closed[0]), 2U);
  EXPECT_EQ(labels(s.seen.closed[1]), 1U);
}

TEST(Join, EveryCellHasItsMaskAndAWeightOfOne) {
  StateUnderTest s;
  s.apply(impression_event("i", "u", kStart, {"a", "b"}));
  s.apply(action_event("u", "b", kStart + 10, "like", "i"));
  ASSERT_TRUE(s.state->close_windows(0));
  const Example& example = s.seen.closed.at(0);
  EXPECT_EQ(labels(example, 0), 0U);
  EXPECT_EQ(labels(example, 1), 4U);
  for (const Candidate& candidate : example.candidates()) {
    EXPECT_EQ(candidate.mask_bits(), 7U);
    ASSERT_EQ(candidate.weight_size(), 3);
    for (const float weight : candidate.weight()) EXPECT_EQ(weight, 1.0F);
  }
}

TEST(Join, ALateActionEntersTheSequenceAndCountsButIsNoLabel) {
  StateUnderTest s;
  s.apply(impression_event("i1", "u", kStart, {"a"}));
  s.apply(impression_event("i2", "v", kStart + kWindow + 10, {"b"}));  // closes i1
  s.apply(action_event("u", "a", kStart + 100, "click", "i1"));
  EXPECT_EQ(s.probe->actions_late.value(), 1U);
  EXPECT_EQ(labels(s.seen.closed.at(0)), 0U);
  const auto sequence = s.reader().read_sequence("u");
  ASSERT_TRUE(sequence);
  ASSERT_EQ(sequence->size(), 1U);
  ASSERT_EQ(sequence->at(0).actions.size(), 1U);
  EXPECT_EQ(sequence->at(0).actions[0].type, "click");
}

TEST(Join, AnUnattributedActionIsAnEntryOfItsOwnAndNoHistoryToken) {
  StateUnderTest s;
  s.apply(action_event("u", "a", kStart, "share"));
  s.apply(impression_event("i1", "u", kStart + 10, {"b"}));
  const auto sequence = s.reader().read_sequence("u");
  ASSERT_EQ(sequence->size(), 2U);
  EXPECT_FALSE(sequence->at(0).exposed);
  EXPECT_EQ(sequence->at(0).actions[0].type, "share");
  EXPECT_EQ(s.seen.exposures.at(0).history().item_size(), 0);
  EXPECT_EQ(s.probe->actions_unattributed.value(), 1U);
}

TEST(Join, HistoryHoldsWhatWasKnownStrictlyBefore) {
  StateUnderTest s;
  s.apply(item_event("a", kStart - 10, {"sport", "news"}, "p"));
  s.apply(impression_event("i1", "u", kStart, {"a"}));
  s.apply(action_event("u", "a", kStart + 100, "click", "i1"));
  s.apply(impression_event("i2", "u", kStart + 100, {"b"}));  // the click's own millisecond
  s.apply(impression_event("i3", "u", kStart + 101, {"b"}));
  const HistoryColumns& at_click = s.seen.exposures.at(1).history();
  ASSERT_EQ(at_click.item_size(), 1);
  EXPECT_EQ(at_click.action_bits(0), 0U);
  EXPECT_EQ(at_click.item(0), base::xxh3_64("a"));
  EXPECT_EQ(at_click.author(0), base::xxh3_64("p"));
  EXPECT_EQ(at_click.tag_count(0), 2U);
  EXPECT_EQ(at_click.tags(1), base::xxh3_64("news"));
  const HistoryColumns& after = s.seen.exposures.at(2).history();
  ASSERT_EQ(after.item_size(), 2);
  EXPECT_EQ(after.action_bits(0), 1U);
  EXPECT_EQ(after.time_delta_ms(0), kStart);
  EXPECT_EQ(after.time_delta_ms(1), 100);
}

TEST(Join, ALargeSlateLeavesInPartsUnderTheLimit) {
  FeaturesConfig config = StateUnderTest::default_config();
  config.example.example_bytes_max = 4'096;
  StateUnderTest s(config);
  std::vector<std::string> items;
  for (int i = 0; i < 40; ++i) items.push_back("item-" + std::to_string(i));
  s.apply(impression_event("i", "u", kStart, items));
  s.apply(action_event("u", "item-39", kStart + 1, "click", "i"));
  ASSERT_TRUE(s.state->close_windows(0));
  ASSERT_GT(s.seen.closed.size(), 1U);
  std::size_t candidates = 0;
  for (std::size_t p = 0; p < s.seen.closed.size(); ++p) {
    const Example& part = s.seen.closed[p];
    EXPECT_LE(part.ByteSizeLong(), 4'096U);
    EXPECT_EQ(part.part(), p);
    EXPECT_EQ(part.parts(), s.seen.closed.size());
    EXPECT_EQ(part.sequence(), p + 1);
    candidates += static_cast<std::size_t>(part.candidates_size());
  }
  EXPECT_EQ(candidates, 40U);
  EXPECT_EQ(labels(s.seen.closed.back(), s.seen.closed.back().candidates_size() - 1), 1U);
  EXPECT_EQ(s.probe->examples.value(), 1U);
}

TEST(Join, IdleClosesByTheClockAlone) {
  base::EventClock clock(kStart);
  StateUnderTest s;
  s.wiring.clock = &clock;
  s.reopen();
  s.apply(impression_event("i", "u", kStart, {"a"}));
  ASSERT_TRUE(s.state->idle(0));
  EXPECT_TRUE(s.seen.closed.empty());
  clock.advance_to(kStart + kWindow + 1);
  ASSERT_TRUE(s.state->idle(0));
  EXPECT_EQ(s.seen.closed.size(), 1U);
  EXPECT_EQ(s.probe->windows_idle_closed.value(), 1U);
}

}  // namespace
}  // namespace sirenfeed::features
