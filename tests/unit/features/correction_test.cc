// Late actions: the further revisions that they make, once each, while the impression is retained.
#include "features/align_examples.h"
#include "state_fixture.h"
#include "tests/fakes/memory_log.h"

namespace sirenfeed::features {
namespace {

constexpr base::UnixMs kWindow = 600'000;

/// u saw a and b; the window closed when v came.
void show_and_close(StateUnderTest& s) {
  s.apply(impression_event("i1", "u", kStart, {"a", "b"}, "home"));
  s.apply(action_event("u", "a", kStart + 1'000, "click", "i1"));
  s.apply(impression_event("i2", "v", kStart + kWindow + 1, {"c"}, "home"));
}

std::vector<std::string> outbox_of(const StateUnderTest& s) {
  std::vector<std::string> entries;
  auto read = s.state->outbox().read({ingest::Topic::kExamples, 0}, 1, 1'000, 1U << 20U);
  EXPECT_TRUE(read);
  for (const OutboxEntry& entry : *read) entries.push_back(entry.value);
  return entries;
}

TEST(Corrections, ALateActionUnmasksItsOwnCellAndNothingElse) {
  StateUnderTest s;
  show_and_close(s);
  ASSERT_EQ(s.seen.closed.size(), 1U);
  const Example first = s.seen.closed[0];
  s.apply(action_event("u", "b", kStart + 2'000, "like", "i1"));
  ASSERT_EQ(s.seen.closed.size(), 2U);
  const Example& corrected = s.seen.closed[1];
  EXPECT_EQ(corrected.revision(), 1U);
  EXPECT_EQ(corrected.sequence(), first.sequence() + 1);
  EXPECT_EQ(corrected.impression_offset(), first.impression_offset());
  ASSERT_EQ(corrected.candidates_size(), 2);
  EXPECT_EQ(corrected.candidates(0).mask_bits(), 0U);
  EXPECT_EQ(corrected.candidates(1).mask_bits(), 0b100U);  // like is the third task
  EXPECT_EQ(corrected.candidates(1).label_bits(), 0b100U);
  // The inputs are those of the exposure, not of now.
  Example inputs = corrected;
  Example before = first;
  for (Example* example : {&inputs, &before}) {
    example->set_revision(0);
    example->set_sequence(0);
    for (auto& candidate : *example->mutable_candidates()) {
      candidate.clear_mask_bits();
      candidate.clear_label_bits();
    }
  }
  EXPECT_EQ(inputs.SerializeAsString(), before.SerializeAsString());
  EXPECT_EQ(s.probe->corrections.value(), 1U);
  EXPECT_EQ(s.probe->examples.value(), 1U);  // of revision 0
  EXPECT_EQ(s.probe->actions_late.value(), 1U);
}

TEST(Corrections, EachCellIsCorrectedOnceAndKnownLabelsAreNot) {
  StateUnderTest s;
  show_and_close(s);
  s.apply(action_event("u", "a", kStart + 2'000, "click", "i1"));  // in time already
  EXPECT_EQ(s.seen.closed.size(), 1U);
  s.apply(action_event("u", "b", kStart + 2'000, "click", "i1"));
  s.apply(action_event("u", "b", kStart + 3'000, "click", "i1"));       // again
  s.apply(action_event("u", "b", kStart + 3'000, "share", "i1"));       // no task
  s.apply(action_event("u", "b", kStart + 4'000, "long_view"));         // without impression_id
  s.apply(action_event("u", "z", kStart + 4'000, "click", "i1"));       // not shown
  s.apply(action_event("u", "b", kStart + kWindow + 1, "like", "i1"));  // after the window
  ASSERT_EQ(s.seen.closed.size(), 3U);
  EXPECT_EQ(s.seen.closed[1].candidates(1).mask_bits(), 0b001U);
  EXPECT_EQ(s.seen.closed[2].candidates(1).mask_bits(), 0b010U);
  EXPECT_EQ(s.seen.closed[2].revision(), 2U);
  EXPECT_EQ(s.seen.closed[2].candidates(1).label_bits(), 0b011U);
}

TEST(Corrections, ALateActionCountsAsOneInTimeWould) {
  StateUnderTest late;
  show_and_close(late);
  late.apply(action_event("u", "b", kStart + 1'000, "click", "i1"));
  StateUnderTest in_time;
  in_time.apply(impression_event("i1", "u", kStart, {"a", "b"}, "home"));
  in_time.apply(action_event("u", "a", kStart + 1'000, "click", "i1"));
  in_time.apply(action_event("u", "b", kStart + 1'000, "click", "i1"));
  in_time.apply(impression_event("i2", "v", kStart + kWindow + 1, {"c"}, "home"));
  const base::UnixMs now = kStart + kWindow + 2;
  for (StateUnderTest* s : {&late, &in_time}) {
    s->apply(impression_event("i3", "u", now, {"b"}, "home"));
  }
  const auto& a = late.seen.exposures.back().candidates(0).context();
  const auto& b = in_time.seen.exposures.back().candidates(0).context();
  for (int f = 0; f < a.size(); ++f) EXPECT_NEAR(a[f], b[f], 1e-4) << f;
}

TEST(Corrections, AreMadeAfterARestartAndLieInTheOutboxOnce) {
  StateUnderTest disturbed;
  StateUnderTest calm;
  for (StateUnderTest* s : {&disturbed, &calm}) {
    show_and_close(*s);
    if (s == &disturbed) s->reopen();
    const auto late = s->records.of(action_event("u", "b", kStart + 2'000, "click", "i1"));
    s->apply(std::vector{late});
    if (s == &disturbed) s->reopen();
    s->apply(std::vector{late});  // read again after a crash
    s->apply(action_event("u", "b", kStart + 2'000, "like", "i1"));
  }
  EXPECT_EQ(disturbed.canonical(), calm.canonical());
  EXPECT_EQ(outbox_of(disturbed), outbox_of(calm));
  ASSERT_EQ(calm.seen.closed.size(), 3U);
  EXPECT_EQ(outbox_of(calm).size(), 3U);
}

TEST(Corrections, ComeInTheBatchThatClosesTheWindowToo) {
  StateUnderTest s;
  std::vector<ingest::InputRecord> batch;
  batch.push_back(s.records.of(impression_event("i1", "u", kStart, {"a", "b"})));
  batch.push_back(s.records.of(impression_event("i2", "v", kStart + kWindow + 1, {"c"})));
  batch.push_back(s.records.of(action_event("u", "b", kStart + 2'000, "click", "i1")));
  s.apply(batch);
  ASSERT_EQ(s.seen.closed.size(), 2U);
  EXPECT_EQ(s.seen.closed[1].candidates(1).mask_bits(), 0b001U);
  s.reopen();
  s.apply(action_event("u", "b", kStart + 2'000, "like", "i1"));
  ASSERT_EQ(s.seen.closed.size(), 3U);
  EXPECT_EQ(s.seen.closed[2].revision(), 2U);
}

TEST(Corrections, EndWithTheRetentionAndTheActionStillEntersTheSequence) {
  FeaturesConfig config = StateUnderTest::default_config();
  config.corrections.retention_ms = 60'000;
  StateUnderTest s(config);
  show_and_close(s);
  const base::UnixMs last = kStart + kWindow + config.corrections.retention_ms;
  s.apply(impression_event("i3", "w", last, {"c"}));
  s.apply(action_event("u", "b", kStart + 2'000, "click", "i1"));
  EXPECT_EQ(s.probe->corrections.value(), 1U);
  s.apply(impression_event("i4", "w", last + 1, {"c"}));
  EXPECT_EQ(s.probe->retained.value(), 0);
  s.apply(action_event("u", "b", kStart + 2'000, "like", "i1"));
  EXPECT_EQ(s.probe->corrections.value(), 1U);
  EXPECT_NE(s.canonical().find("like@"), std::string::npos);
  // Nothing is left of it in the store.
  const auto families = s.state->families();
  ASSERT_TRUE(families);
  for (const FamilySize& family : *families) EXPECT_NE(family.family, "retained");
}

TEST(Corrections, TheOldestImpressionsLeaveWhenTooManyAreRetained) {
  FeaturesConfig config = StateUnderTest::default_config();
  config.corrections.retained_max = 2;
  StateUnderTest s(config);
  for (int i = 0; i < 4; ++i) {
    const std::string n = std::to_string(i);
    s.apply(impression_event("i" + n, "u" + n, kStart + i, {"a"}));
  }
  s.apply(impression_event("end", "v", kStart + kWindow + 10, {"c"}));
  EXPECT_EQ(s.probe->retained.value(), 2);
  for (int i = 0; i < 4; ++i) {
    const std::string n = std::to_string(i);
    s.apply(action_event("u" + n, "a", kStart + 1'000, "click", "i" + n));
    EXPECT_EQ(s.probe->corrections.value(), i < 2 ? 0U : static_cast<std::uint64_t>(i) - 1) << i;
  }
}

TEST(Corrections, AnErasureTakesTheRetainedImpressionsWithIt) {
  for (const bool restarted : {false, true}) {
    StateUnderTest s;
    show_and_close(s);
    if (restarted) s.reopen();
    s.apply(erase_event("u", kStart + kWindow + 2));
    EXPECT_EQ(s.probe->retained.value(), 0);
    s.apply(action_event("u", "b", kStart + kWindow + 3, "click", "i1"));
    EXPECT_EQ(s.probe->corrections.value(), 0U);
  }
}

TEST(Corrections, OffNothingIsRetained) {
  FeaturesConfig config = StateUnderTest::default_config();
  config.corrections.enabled = false;
  StateUnderTest s(config);
  show_and_close(s);
  s.apply(action_event("u", "b", kStart + 2'000, "click", "i1"));
  EXPECT_EQ(s.seen.closed.size(), 1U);
  EXPECT_EQ(s.probe->actions_late.value(), 1U);
  EXPECT_EQ(s.probe->retained.value(), 0);
}

// The topic ends with the corrections that the lost store had sent.
TEST(Corrections, AStoreThatWasLostSendsNoneOfThemAgain) {
  StateUnderTest lost;
  show_and_close(lost);
  lost.apply(action_event("u", "b", kStart + 2'000, "click", "i1"));
  lost.apply(action_event("u", "b", kStart + 2'000, "like", "i1"));
  fakes::MemoryLog log;
  for (const Example& example : lost.seen.closed) {
    log.put({ingest::Topic::kExamples, 0}, example.user_id(), example.SerializeAsString(),
            example.closed_ms());
  }
  StateUnderTest anew;
  ASSERT_TRUE(align_examples(*anew.state, log));
  show_and_close(anew);
  anew.apply(action_event("u", "b", kStart + 2'000, "click", "i1"));
  anew.reopen();
  anew.apply(action_event("u", "b", kStart + 2'000, "like", "i1"));
  EXPECT_TRUE(anew.seen.closed.empty());
  anew.apply(action_event("u", "b", kStart + 2'000, "long_view", "i1"));
  ASSERT_EQ(anew.seen.closed.size(), 1U);
  EXPECT_EQ(anew.seen.closed[0].revision(), 3U);
  EXPECT_EQ(anew.seen.closed[0].epoch(), 2U);
}

}  // namespace
}  // namespace sirenfeed::features
