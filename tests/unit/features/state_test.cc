// What is kept, refused and forgotten, and that a crash changes none of it.
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <random>

#include "state_fixture.h"

namespace sirenfeed::features {
namespace {

TEST(State, ADuplicateChangesNothing) {
  StateUnderTest s;
  s.apply(impression_event("i", "u", kStart, {"a"}));
  ingest::Action click = action_event("u", "a", kStart + 1, "click", "i");
  click.event_id = "e";
  s.apply(click);
  s.apply(action_event("u", "a", kStart + 2, "like"));
  const std::string before = s.canonical();
  s.apply(impression_event("i", "u", kStart + 3, {"b"}));
  click.time_ms = kStart + 4;  // event_id decides
  s.apply(click);
  s.apply(action_event("u", "a", kStart + 2, "like"));
  EXPECT_EQ(s.probe->duplicate.value(), 3U);
  EXPECT_EQ(s.probe->in.value(), 6U);
  const auto without_positions = [](const std::string& dump) {
    std::istringstream lines(dump);
    std::string kept;
    for (std::string line; std::getline(lines, line);) {
      if (!line.starts_with("position")) kept += line + "\n";
    }
    return kept;
  };
  EXPECT_EQ(without_positions(s.canonical()), without_positions(before));
}

TEST(State, TheSameImpressionIdOfAnotherUserIsAnotherImpression) {
  StateUnderTest s;
  s.apply(impression_event("i", "u", kStart, {"a"}));
  s.apply(impression_event("i", "v", kStart, {"a"}));
  EXPECT_EQ(s.probe->applied.value(), 2U);
}

TEST(State, IdsAreForgottenAndRecordsTooOldAfterTheHorizon) {
  StateUnderTest s;
  const base::UnixMs later = kStart + 3 * base::kMsPerDay + 1;
  s.apply(impression_event("i", "u", kStart, {"a"}));
  s.apply(impression_event("j", "v", kStart + 2 * base::kMsPerDay / 3, {"a"}));
  s.apply(impression_event("k", "v", kStart + 4 * base::kMsPerDay / 3, {"a"}));
  s.apply(impression_event("l", "v", kStart + 2 * base::kMsPerDay, {"a"}));
  s.apply(impression_event("m", "v", kStart + 8 * base::kMsPerDay / 3, {"a"}));
  s.apply(impression_event("n", "v", later, {"a"}));
  s.apply(impression_event("i", "u", kStart, {"a"}));
  EXPECT_EQ(s.probe->rejected_total(), 1U);
  s.apply(impression_event("i", "u", later, {"a"}));
  EXPECT_EQ(s.probe->duplicate.value(), 0U);
  // Neither leaves a dead letter.
  const auto streams = s.state->outbox().streams();
  ASSERT_TRUE(streams);
  for (const OutboxStream& stream : *streams) EXPECT_EQ(stream.topic, ingest::Topic::kExamples);
}

TEST(State, RecordsAtOrBeforeThePositionAreNoOps) {
  StateUnderTest s;
  const auto record = s.records.of(impression_event("i", "u", kStart, {"a"}));
  s.apply(std::vector{record});
  const std::string before = s.canonical();
  s.apply(std::vector{record, record});
  EXPECT_EQ(s.canonical(), before);
  EXPECT_EQ(s.probe->replayed.value(), 2U);
  const auto position = s.state->position(record.source);
  ASSERT_TRUE(position && *position);
  EXPECT_EQ((*position)->offset, record.offset);
  EXPECT_EQ((*position)->hash, record.hash);
}

TEST(State, ARejectedRecordIsADeadLetterWithItsPlace) {
  StateUnderTest s;
  auto record = s.records.of(action_event("u", "a", kStart));
  record.payload = "{broken";
  record.content = ingest::Rejection{ingest::RejectReason::kNotJson, "expected an object"};
  s.apply(std::vector{record});
  const auto entries = s.state->outbox().read({ingest::Topic::kDeadLetters, 0}, 0, 10, 1U << 20U);
  ASSERT_TRUE(entries);
  ASSERT_EQ(entries->size(), 1U);
  EXPECT_EQ(entries->at(0).key, "clicks/0/0");
  EXPECT_NE(entries->at(0).value.find("not_json"), std::string::npos) << entries->at(0).value;
  const auto counts = s.state->conservation();
  ASSERT_TRUE(counts);
  EXPECT_EQ(counts->in, 1U);
  EXPECT_EQ(counts->rejected, 1U);
}

TEST(State, ATakenDownItemIsNotServedWhateverTheOrder) {
  StateUnderTest s;
  const Key a = base::xxh3_64("a");
  s.apply(item_event("a", kStart, {"t"}, "p"));
  EXPECT_TRUE(s.reader().servable(a, kStart));
  EXPECT_EQ(s.reader().fresh(10, kStart), std::vector{a});
  s.apply(takedown_event("a", kStart + 10));
  EXPECT_FALSE(s.reader().servable(a, kStart + 20));
  EXPECT_TRUE(s.reader().fresh(10, kStart).empty());
  EXPECT_TRUE(s.reader().by_tag(base::xxh3_64("t"), 10, kStart).empty());
  EXPECT_TRUE(s.reader().by_author(base::xxh3_64("p"), 10, kStart).empty());
  s.apply(item_event("a", kStart + 5));  // strayed
  EXPECT_FALSE(s.reader().servable(a, kStart + 20));
  s.apply(takedown_event("b", kStart + 10));
  s.apply(item_event("b", kStart));
  EXPECT_FALSE(s.reader().servable(base::xxh3_64("b"), kStart + 20));
  EXPECT_EQ(s.probe->rejected_total(), 2U);
  s.apply(impression_event("i", "u", kStart + 30, {"a"}));  // shown all the same: it stays down
  EXPECT_FALSE(s.reader().servable(a, kStart + 40));
  s.reopen();
  EXPECT_FALSE(s.reader().servable(a, kStart + 40));
  s.apply(item_event("a", kStart + 50));  // a later event starts anew
  EXPECT_TRUE(s.reader().servable(a, kStart + 60));
}

TEST(State, ATakedownForgetsTheItemsCounters) {
  StateUnderTest s;
  s.apply(item_event("a", kStart, {}, "p"));
  s.apply(impression_event("i", "u", kStart + 1, {"a"}, "home"));
  s.apply(action_event("u", "a", kStart + 2, "click", "i"));
  EXPECT_EQ(s.reader().popular(PopularSpan::kHour, 10, kStart + 3).size(), 1U);
  s.apply(takedown_event("a", kStart + 3));
  EXPECT_TRUE(s.reader().popular(PopularSpan::kHour, 10, kStart + 3).empty());
  s.apply(item_event("a", kStart + 4, {}, "p"));
  s.apply(impression_event("j", "u", kStart + 5, {"a"}, "home"));
  const Example& example = s.seen.exposures.at(1);
  EXPECT_EQ(s.feature(example, "item.shown_30d"), 0);
  EXPECT_EQ(s.feature(example, "item_surface.shown_30d"), 0);
  EXPECT_GT(s.feature(example, "author.shown_30d"), 0);
}

TEST(State, ErasureLeavesNothingOfTheUserAndStraysDoNotBringItBack) {
  StateUnderTest s;
  s.apply(impression_event("i", "user-to-erase", kStart, {"a"}));
  s.apply(action_event("user-to-erase", "a", kStart + 1, "click", "i"));
  s.apply(erase_event("user-to-erase", kStart + 10));
  s.apply(impression_event("j", "user-to-erase", kStart + 5, {"a"}));
  s.apply(action_event("user-to-erase", "a", kStart + 10));
  EXPECT_EQ(s.probe->rejected_total(), 2U);
  const auto user = s.reader().read_user("user-to-erase", kStart + 20);
  ASSERT_TRUE(user);
  EXPECT_FALSE(user->known);
  EXPECT_TRUE(user->history.tokens.empty());
  EXPECT_FALSE(user->seen(base::xxh3_64("a")));
  EXPECT_EQ(*s.reader().erased_at("user-to-erase"), kStart + 10);
  ASSERT_TRUE(s.state->close_windows(0));
  EXPECT_TRUE(s.seen.closed.empty());
  EXPECT_EQ(s.canonical().find("user-to-erase"), std::string::npos);
  s.apply(impression_event("k", "user-to-erase", kStart + 11, {"a"}));
  EXPECT_TRUE(s.reader().read_user("user-to-erase", kStart + 20)->known);
  EXPECT_EQ(s.seen.exposures.back().history().item_size(), 0);
}

TEST(State, AHeavyUserIsErasedWithAllSections) {
  StateUnderTest s;
  std::vector<ingest::InputRecord> batch;
  for (int i = 0; i < 700; ++i) {
    const std::string n = std::to_string(i);
    batch.push_back(s.records.of(item_event("item-" + n, kStart + i, {}, "author-" + n)));
    batch.push_back(s.records.of(impression_event("i" + n, "u", kStart + i, {"item-" + n})));
  }
  s.apply(batch);
  const auto families = s.state->families();
  ASSERT_TRUE(families);
  const auto keys = [](const std::vector<FamilySize>& sizes, std::string_view name) {
    for (const FamilySize& size : sizes) {
      if (size.family == name) return size.keys;
    }
    return std::uint64_t{0};
  };
  EXPECT_GT(keys(*families, "user_sections"), 10U);
  EXPECT_EQ(s.reader().read_sequence("u")->size(), 512U);
  const std::string before = s.canonical();
  s.reopen();
  EXPECT_EQ(s.canonical(), before);
  EXPECT_TRUE(s.reader().read_user("u", kStart + 1'000)->seen(base::xxh3_64("item-0")));
  s.apply(erase_event("u", kStart + 800));
  EXPECT_EQ(keys(*s.state->families(), "user_sections"), 0U);
  EXPECT_EQ(keys(*s.state->families(), "users"), 0U);
}

TEST(State, ASecondProcessIsRefusedAndTheFolderIsNamed) {
  StateUnderTest s;
  FeaturesConfig config = s.state->config();
  base::MetricsRegistry registry;
  FeaturesProbe probe(registry);
  const auto second = FeatureState::open(config, probe);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, base::ErrorCode::kLocked) << second.error().message;
  EXPECT_NE(second.error().message.find(config.store.dir), std::string::npos);
}

TEST(State, AnotherNumberOfPartitionsIsRefused) {
  StateUnderTest s;
  FeaturesConfig config = s.state->config();
  s.state.reset();
  EXPECT_EQ(FeatureState::stored_partitions(config.store).value(), 1);
  config.partitions = 2;
  const auto other = FeatureState::open(config, *s.probe);
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code, base::ErrorCode::kCorrupt);
}

TEST(State, AJumpIsHeldUntilThreeUsersConfirmIt) {
  StateUnderTest s;
  const base::UnixMs far = kStart + 40 * base::kMsPerDay;
  s.apply(impression_event("i", "u", kStart, {"a"}));
  s.apply(impression_event("j", "v", far, {"a"}));
  s.apply(impression_event("k", "v", far + 1, {"a"}));
  s.apply(impression_event("l", "w", far + 2, {"a"}));
  EXPECT_EQ(s.seen.order, std::vector<std::string>{"exposure i"});
  s.reopen();  // what is held is part of the state
  s.apply(impression_event("m", "u", kStart + 10, {"a"}));
  s.apply(impression_event("n", "x", far - 5, {"a"}));
  EXPECT_EQ(s.seen.order,
            (std::vector<std::string>{"exposure i", "exposure m", "exposure n", "closed i",
                                      "closed m", "exposure j", "exposure k", "exposure l"}));
  const auto counts = s.state->conservation();
  EXPECT_EQ(counts->in, 6U);
  EXPECT_EQ(counts->applied, 6U);
}

TEST(State, AWrongDateIsNotConfirmedByAJumpBeforeIt) {
  StateUnderTest s;
  const base::UnixMs jump = kStart + 2 * base::kMsPerDay;
  s.apply(impression_event("i", "u", kStart, {"a"}));
  s.apply(impression_event("wrong", "v", kStart + 9'000 * base::kMsPerDay, {"a"}));
  for (const char* user : {"w", "x", "y"}) s.apply(impression_event(user, user, jump, {"a"}));
  s.apply(impression_event("next", "u", jump + 1, {"a"}));
  EXPECT_EQ(s.seen.order, (std::vector<std::string>{"exposure i", "exposure w", "closed i",
                                                    "exposure x", "exposure y", "exposure next"}));
  ASSERT_TRUE(s.state->close_windows(0));
  EXPECT_EQ(s.probe->rejected_total(), 1U);
}

TEST(State, AClockOfEventsStandsWhereItStoodAfterARestart) {
  StateUnderTest s;
  base::EventClock before;
  s.wiring.event_clock = &before;
  s.reopen();
  s.apply(impression_event("i", "u", kStart, {"a"}));
  s.apply(item_event("a", kStart + 5));
  EXPECT_EQ(before.now_ms(), kStart + 5);
  base::EventClock after;
  s.wiring.event_clock = &after;
  s.reopen();
  EXPECT_EQ(after.now_ms(), kStart + 5);
}

TEST(State, AWrongDateOfAnItemDoesNotMoveTheClockOfEvents) {
  StateUnderTest s;
  base::EventClock clock;
  s.wiring.event_clock = &clock;
  s.reopen();
  s.apply(impression_event("i", "u", kStart, {"a"}));
  s.apply(item_event("a", kStart + 100 * base::kMsPerDay));
  EXPECT_EQ(clock.now_ms(), kStart);
  s.apply(item_event("b", kStart + 5));
  EXPECT_EQ(clock.now_ms(), kStart + 5);
}

TEST(State, ManyItemsWithWrongDatesDoNotMoveTheClockStepByStep) {
  StateUnderTest s;
  base::EventClock clock;
  s.wiring.event_clock = &clock;
  s.reopen();
  s.apply(item_event("first", 8'000'000'000'000));  // before any impression; the year 2223
  EXPECT_LT(clock.now_ms(), 8'000'000'000'000 - base::kMsPerDay);
  s.apply(item_event("past", kStart - 5));
  EXPECT_EQ(clock.now_ms(), kStart - 5);
  s.apply(impression_event("i", "u", kStart, {"a"}));
  for (int day = 1; day <= 20; ++day) {
    s.apply(item_event("a" + std::to_string(day), kStart + day * base::kMsPerDay));
  }
  EXPECT_EQ(clock.now_ms(), kStart + base::kMsPerDay);
  s.reopen();
  s.apply(item_event("b", kStart + 2 * base::kMsPerDay));
  EXPECT_EQ(clock.now_ms(), kStart + base::kMsPerDay);
}

TEST(State, DeadLettersGoOnCountingAfterARestart) {
  StateUnderTest s;
  const auto reject = [&](ingest::Topic topic, ingest::Partition partition) {
    auto broken = topic == ingest::Topic::kItems
                      ? s.records.of(item_event("a", kStart), partition)
                      : s.records.of(action_event("u", "a", kStart), partition);
    broken.content = ingest::Rejection{ingest::RejectReason::kNotJson, "expected an object"};
    s.apply(std::vector{broken});
  };
  const ingest::Partition items_only = 3;  // topic items may have more partitions
  for (int restart = 0; restart < 3; ++restart) {
    reject(ingest::Topic::kClicks, 0);
    reject(ingest::Topic::kItems, items_only);
    s.reopen();
  }
  for (const ingest::Partition p : {0, items_only}) {
    const auto letters = s.state->outbox().read({ingest::Topic::kDeadLetters, p}, 0, 9, 1U << 20U);
    ASSERT_EQ(letters->size(), 3U);
    for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(letters->at(i).sequence, i + 1);
  }
}

TEST(State, AnUnconfirmedJumpIsADeadLetterAtTheEndOfInput) {
  StateUnderTest s;
  s.apply(impression_event("i", "u", kStart, {"a"}));
  s.apply(impression_event("j", "v", kStart + 40 * base::kMsPerDay, {"a"}));
  ASSERT_TRUE(s.state->close_windows(0));
  EXPECT_EQ(s.probe->rejected_total(), 1U);
  EXPECT_EQ(s.seen.closed.size(), 1U);
  const auto letters = s.state->outbox().read({ingest::Topic::kDeadLetters, 0}, 0, 9, 1U << 20U);
  ASSERT_EQ(letters->size(), 1U);
  EXPECT_NE(letters->at(0).value.find("event_jump"), std::string::npos);
}

class ManualSteadyClock final : public base::SteadyClock {
 public:
  [[nodiscard]] base::SteadyTime now() const override { return time; }
  base::SteadyTime time;
};

TEST(State, AnExpiredJumpIsADeadLetterWhereOthersWentOnAndAppliedAfterASilence) {
  for (const bool others : {true, false}) {
    ManualSteadyClock steady;
    StateUnderTest s;
    s.wiring.steady = &steady;  // the wall clock is years ahead of these events
    s.reopen();
    s.apply(impression_event("i", "u", kStart, {"a"}));
    s.apply(impression_event("j", "u", kStart + 3 * base::kMsPerDay, {"a"}));
    if (others) s.apply(impression_event("k", "v", kStart + 1, {"a"}));
    steady.time += std::chrono::milliseconds(599'999);
    ASSERT_TRUE(s.state->idle(0));
    EXPECT_EQ(s.probe->rejected_total(), 0U);
    EXPECT_EQ(s.probe->impressions.value(), others ? 2U : 1U);
    steady.time += std::chrono::milliseconds(1);
    ASSERT_TRUE(s.state->idle(0));
    EXPECT_EQ(s.probe->rejected_total(), others ? 1U : 0U);
    EXPECT_EQ(s.probe->impressions.value(), 2U);
    EXPECT_EQ(s.probe->held.value(), 0);
  }
}

// A log of everything, for the tests that interrupt it.
std::vector<ingest::InputRecord> mixed_log(unsigned seed, int events) {
  std::mt19937 random(seed);
  const auto pick = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  Records records;
  std::vector<ingest::InputRecord> log;
  base::UnixMs now = kStart;
  for (int i = 0; i < events; ++i) {
    now += pick(90'000);
    const std::string user = "u" + std::to_string(pick(7));
    const std::string item = "item-" + std::to_string(pick(20));
    const std::string id = "i" + std::to_string(i - pick(40));  // some twice
    switch (pick(12)) {
      case 0:
        log.push_back(records.of(item_event(item, now, {"t" + std::to_string(pick(3))}, "p")));
        break;
      case 1:
        log.push_back(records.of(pick(4) == 0 ? takedown_event(item, now) : item_event(item, now)));
        break;
      case 2:
        if (pick(3) == 0) log.push_back(records.of(erase_event(user, now - pick(50'000))));
        break;
      case 3:
        log.push_back(records.of(impression_event(id, user, now - pick(900'000), {item})));
        break;
      case 4:
      case 5:
      case 6:
      case 7:
        log.push_back(records.of(action_event(user, item, now, pick(2) == 0 ? "click" : "share",
                                              pick(2) == 0 ? std::nullopt : std::optional(id))));
        break;
      default:
        log.push_back(records.of(
            impression_event(id, user, now, {item, "item-" + std::to_string(pick(20))}, "home")));
    }
  }
  // Whatever was drawn above, something is refused.
  log.push_back(records.of(takedown_event("gone", now)));
  log.push_back(records.of(item_event("gone", now - 1)));
  return log;
}

// The first lines that differ, or nothing.
std::string first_difference(const std::string& a, const std::string& b) {
  std::istringstream lines_a(a);
  std::istringstream lines_b(b);
  std::string line_a;
  std::string line_b;
  for (;;) {
    const bool more_a = static_cast<bool>(std::getline(lines_a, line_a));
    const bool more_b = static_cast<bool>(std::getline(lines_b, line_b));
    if (!more_a && !more_b) return "";
    if (more_a != more_b || line_a != line_b) return line_a + "\n" + line_b;
  }
}

// The examples in the outbox, one a line.
std::string examples(FeatureState& state) {
  std::string lines;
  const auto entries = state.outbox().read({ingest::Topic::kExamples, 0}, 0, 1U << 20U, 1U << 30U);
  for (const OutboxEntry& entry : *entries) {
    Example example;
    EXPECT_TRUE(example.ParseFromString(entry.value));
    lines += example.ShortDebugString() + "\n";
  }
  return lines;
}

TEST(State, AnyBatchesAndRestartsGiveTheSameStateAndExamples) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const auto log = mixed_log(seed, 1'200);
  StateUnderTest plain;
  plain.apply(log);

  FeaturesConfig small = StateUnderTest::default_config();
  small.store.user_cache_bytes = 1;  // nothing stays in memory
  small.store.item_entries_max = 64;
  small.store.catalog_entries_max = 64;
  small.store.pending_bytes = 1;
  StateUnderTest disturbed(small);
  std::size_t at = 0;
  while (at < log.size()) {
    const std::size_t end = std::min(log.size(), at + 1 + random() % 90);
    // A restart reads some records again.
    const std::size_t begin = at - std::min<std::size_t>(at, random() % 20);
    disturbed.apply(std::vector(log.begin() + static_cast<std::ptrdiff_t>(begin),
                                log.begin() + static_cast<std::ptrdiff_t>(end)));
    at = end;
    if (random() % 4 == 0) disturbed.reopen();
  }
  EXPECT_EQ(first_difference(disturbed.canonical(), plain.canonical()), "");
  EXPECT_EQ(first_difference(examples(*disturbed.state), examples(*plain.state)), "");
  const auto counts = plain.state->conservation();
  EXPECT_EQ(counts->in, log.size());
  EXPECT_EQ(counts->in, counts->applied + counts->rejected + counts->duplicate);
  EXPECT_GT(counts->duplicate, 0U);
  EXPECT_GT(counts->rejected, 0U);
}

TEST(State, AKilledProcessLeavesWholeBatches) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  const auto log = mixed_log(seed, 400);
  StateUnderTest plain;
  plain.apply(log);
  TempDir folder;
  FeaturesConfig config = StateUnderTest::default_config();
  config.store.dir = folder.path();
  std::mt19937 random(seed);
  for (int round = 0; round < 3; ++round) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {  // applies in small batches and dies in the middle of its work
      base::MetricsRegistry registry;
      FeaturesProbe probe(registry);
      auto state = FeatureState::open(config, probe);
      if (!state) _exit(2);
      const std::size_t end = log.size() * static_cast<std::size_t>(round + 1) / 4;
      for (std::size_t at = 0; at < end; at += 7) {
        const auto part = std::span(log).subspan(at, std::min<std::size_t>(7, log.size() - at));
        if (!(*state)->apply(part)) _exit(3);
      }
      _exit(9);  // no destructor runs, nothing is flushed
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_EQ(WEXITSTATUS(status), 9);
  }
  StateUnderTest resumed(config);
  resumed.apply(log);
  EXPECT_EQ(first_difference(resumed.canonical(), plain.canonical()), "");
  EXPECT_EQ(first_difference(examples(*resumed.state), examples(*plain.state)), "");
}

}  // namespace
}  // namespace sirenfeed::features
