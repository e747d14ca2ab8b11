// What leaves: in order, once it is in the log, also after failures and a lost store.
#include <thread>

#include "features/align_examples.h"
#include "features/outbox_relay.h"
#include "state_fixture.h"
#include "tests/fakes/memory_log.h"

namespace sirenfeed::features {
namespace {

using namespace std::chrono_literals;

constexpr base::UnixMs kWindow = 600'000;

OutboxRelayConfig quick() {
  OutboxRelayConfig config;
  config.in_flight_max = 3;
  config.retry_backoff = config.retry_backoff_max = 1ms;
  return config;
}

void close_some(StateUnderTest& s, int from, int to) {
  for (int i = from; i < to; ++i) {
    const std::string n = std::to_string(i);
    s.apply(impression_event("i" + n, "u" + n, kStart + i * (kWindow + 1), {"a"}));
  }
}

std::vector<std::uint64_t> sequences(const fakes::MemoryLog& log) {
  std::vector<std::uint64_t> result;
  for (const auto& record : log.records({ingest::Topic::kExamples, 0})) {
    Example example;
    EXPECT_TRUE(example.ParseFromString(record.value.value_or("")));
    EXPECT_EQ(record.key, example.user_id());
    result.push_back(example.sequence());
  }
  return result;
}

/// "IMPRESSION EPOCH/SEQUENCE" of each example, as they lie there.
std::vector<std::string> sent(const fakes::MemoryLog& log) {
  std::vector<std::string> result;
  for (const auto& record : log.records({ingest::Topic::kExamples, 0})) {
    Example example;
    EXPECT_TRUE(example.ParseFromString(record.value.value_or("")));
    result.push_back(
        fmt::format("{} {}/{}", example.impression_id(), example.epoch(), example.sequence()));
  }
  return result;
}

TEST(Outbox, EverythingLeavesInOrderAndIsDeleted) {
  StateUnderTest s;
  fakes::MemoryLog log;
  OutboxRelay relay(quick(), s.state->outbox(), log, *s.probe);
  relay.start();
  close_some(s, 0, 12);
  auto broken = s.records.of(action_event("u", "a", kStart));
  broken.content = ingest::Rejection{ingest::RejectReason::kNotJson, "expected an object"};
  s.apply(std::vector{broken});
  const auto drained = relay.drain(5s);
  ASSERT_TRUE(drained) << drained.error().message;
  relay.stop();
  relay.stop();
  EXPECT_EQ(sequences(log), (std::vector<std::uint64_t>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}));
  EXPECT_EQ(log.records({ingest::Topic::kDeadLetters, 0}).size(), 1U);
  EXPECT_EQ(s.probe->outbox_entries.value(), 0);
  EXPECT_EQ(s.probe->outbox_sent.value(), 12U);
}

TEST(Outbox, AFailedDeliveryIsSentAgainFromTheLowestUnacknowledged) {
  for (const bool stored : {false, true}) {
    StateUnderTest s;
    fakes::MemoryLog log;
    close_some(s, 0, 8);
    log.fail_next_delivery({base::ErrorCode::kUnavailable, "lost"}, stored);
    OutboxRelay relay(quick(), s.state->outbox(), log, *s.probe);
    relay.start();
    ASSERT_TRUE(relay.drain(5s));
    relay.stop();
    EXPECT_GE(s.probe->outbox_resent.value(), 1U);
    // Never out of order: a reader that takes exactly last + 1 and skips what it has sees all.
    std::uint64_t last = 0;
    for (const std::uint64_t sequence : sequences(log)) {
      EXPECT_LE(sequence, last + 1);
      last = std::max(last, sequence);
    }
    EXPECT_EQ(last, 7U);
  }
}

TEST(Outbox, WhatWasNotSentBeforeARestartIsSentAfterIt) {
  StateUnderTest s;
  fakes::MemoryLog log;
  close_some(s, 0, 5);
  s.reopen();
  EXPECT_EQ(s.probe->outbox_entries.value(), 4);
  close_some(s, 5, 7);
  OutboxRelay relay(quick(), s.state->outbox(), log, *s.probe);
  relay.start();
  ASSERT_TRUE(relay.drain(5s));
  relay.stop();
  EXPECT_EQ(sequences(log), (std::vector<std::uint64_t>{1, 2, 3, 4, 5, 6}));
}

TEST(Outbox, ALostStoreStartsTheNextEpochAndIsSilentUntilItHasCaughtUp) {
  fakes::MemoryLog log;
  std::vector<ingest::InputRecord> records;
  Records source;
  for (int i = 0; i < 9; ++i) {
    const std::string n = std::to_string(i);
    records.push_back(source.of(impression_event("i" + n, "u", kStart + i * (kWindow + 1), {"a"})));
  }
  const auto run = [&](std::size_t count) {
    StateUnderTest s;
    ASSERT_TRUE(align_examples(*s.state, log));
    s.apply(std::vector(records.begin(), records.begin() + static_cast<std::ptrdiff_t>(count)));
    ASSERT_TRUE(align_examples(*s.state, log));  // no longer empty: changes nothing
    OutboxRelay relay(quick(), s.state->outbox(), log, *s.probe);
    relay.start();
    ASSERT_TRUE(relay.drain(5s));
  };
  run(5);  // closes i0 … i3
  run(3);  // a new store that has not caught up
  run(9);  // and one that has
  EXPECT_EQ(sent(log), (std::vector<std::string>{"i0 1/1", "i1 1/2", "i2 1/3", "i3 1/4", "i4 2/1",
                                                 "i5 2/2", "i6 2/3", "i7 2/4"}));
}

TEST(Outbox, AStatePutBackFromACopySendsNothingTwiceAndLeavesNothingOut) {
  fakes::MemoryLog log;
  TempDir folder;
  const std::string copy = folder.path() + "/copy";
  std::vector<ingest::InputRecord> records;
  Records source;
  for (int i = 0; i < 14; ++i) {
    const std::string n = std::to_string(i);
    records.push_back(source.of(impression_event("i" + n, "u", kStart + i * (kWindow + 1), {"a"})));
  }
  const auto apply = [&](StateUnderTest& s, std::ptrdiff_t from, std::ptrdiff_t to, bool send) {
    ASSERT_TRUE(align_examples(*s.state, log));
    s.apply(std::vector(records.begin() + from, records.begin() + to));
    if (!send) return;
    OutboxRelay relay(quick(), s.state->outbox(), log, *s.probe);
    relay.start();
    ASSERT_TRUE(relay.drain(5s));
  };
  {
    StateUnderTest s;
    apply(s, 0, 5, /*send=*/true);   // i0 … i3 leave
    apply(s, 5, 7, /*send=*/false);  // i4 and i5 wait in the copy's outbox
    ASSERT_TRUE(s.state->backup_to(copy));
    apply(s, 7, 10, /*send=*/true);  // and leave here, with i6 … i8
  }
  FeaturesConfig config = StateUnderTest::default_config();
  config.store.dir = copy;
  {
    StateUnderTest s(config);
    EXPECT_EQ(s.probe->outbox_entries.value(), 2);
    apply(s, 7, 8, /*send=*/true);  // what waited has left already
    s.reopen();
    apply(s, 8, 14, /*send=*/true);
  }
  EXPECT_EQ(sent(log), (std::vector<std::string>{"i0 1/1", "i1 1/2", "i2 1/3", "i3 1/4", "i4 1/5",
                                                 "i5 1/6", "i6 1/7", "i7 1/8", "i8 1/9", "i9 2/1",
                                                 "i10 2/2", "i11 2/3", "i12 2/4"}));
}

}  // namespace
}  // namespace sirenfeed::features
