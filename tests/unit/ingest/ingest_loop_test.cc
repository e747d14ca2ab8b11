#include "ingest/ingest_loop.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "base/hash.h"
#include "base/mutex.h"
#include "ingest/event_json.h"
#include "tests/fakes/memory_log.h"

namespace sirenfeed::ingest {
namespace {

using namespace std::chrono_literals;
using fakes::MemoryLog;

/// Remembers what was applied; can be told to fail.
class RecordingSink final : public EventSink {
 public:
  base::Result<void> apply(std::span<const InputRecord> records) override {
    base::MutexLock lock(mutex_);
    ++attempts_;
    if (fail_) return base::fail(*fail_);
    batch_sizes_.push_back(records.size());
    for (const InputRecord& record : records) {
      auto& position = positions_[record.source];
      if (position && record.offset <= position->offset) continue;
      position = AppliedPosition{record.offset, record.time_ms, record.hash};
      applied_.push_back(std::string(topic_name(record.source.topic)) + '/' +
                         std::to_string(record.source.partition) + '@' +
                         std::to_string(record.offset));
    }
    return {};
  }
  base::Result<std::optional<AppliedPosition>> position(TopicPartition source) override {
    base::MutexLock lock(mutex_);
    if (position_error_) return base::fail(*position_error_);
    const auto found = positions_.find(source);
    return found == positions_.end() ? std::nullopt : found->second;
  }
  base::Result<void> idle(Partition partition) override {
    base::MutexLock lock(mutex_);
    applied_.push_back("idle " + std::to_string(partition));
    return {};
  }
  base::Result<void> close_windows(Partition partition) override {
    base::MutexLock lock(mutex_);
    applied_.push_back("close " + std::to_string(partition));
    return {};
  }

  void fail_with(std::optional<base::Error> error) {
    base::MutexLock lock(mutex_);
    fail_ = std::move(error);
  }
  void fail_positions_with(std::optional<base::Error> error) {
    base::MutexLock lock(mutex_);
    position_error_ = std::move(error);
  }
  void set_position(TopicPartition source, AppliedPosition position) {
    base::MutexLock lock(mutex_);
    positions_[source] = position;
  }
  [[nodiscard]] std::vector<std::string> applied() const {
    base::MutexLock lock(mutex_);
    return applied_;
  }
  [[nodiscard]] std::size_t count(const std::string& what) const {
    const auto all = applied();
    return static_cast<std::size_t>(std::count(all.begin(), all.end(), what));
  }
  [[nodiscard]] std::vector<std::size_t> batch_sizes() const {
    base::MutexLock lock(mutex_);
    return batch_sizes_;
  }
  [[nodiscard]] int attempts() const {
    base::MutexLock lock(mutex_);
    return attempts_;
  }

 private:
  mutable base::Mutex mutex_;
  std::map<TopicPartition, std::optional<AppliedPosition>> positions_;
  std::vector<std::string> applied_;
  std::vector<std::size_t> batch_sizes_;
  std::optional<base::Error> fail_;
  std::optional<base::Error> position_error_;
  int attempts_ = 0;
};

constexpr base::UnixMs kStart = 1'650'000'000'000;

template <class Condition>
bool eventually(Condition condition) {
  for (int i = 0; i < 1000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(5ms);
  }
  return false;
}

class IngestLoopTest : public testing::Test {
 protected:
  explicit IngestLoopTest() = default;
  void use_partitions(Partition partitions) { log_.emplace(partitions); }
  Offset put_click(const std::string& user, base::UnixMs time) {
    Action click;
    click.user_id = user;
    click.item_id = "a";
    click.type = "click";
    click.time_ms = kStart + time;
    return put(click);
  }
  Offset put_impression(const std::string& user, base::UnixMs time) {
    Impression shown;
    shown.impression_id = "i" + std::to_string(++impressions_);
    shown.user_id = user;
    shown.time_ms = kStart + time;
    shown.items.push_back({"a", {}, {}, {}});
    return put(shown);
  }
  Offset put_item(const std::string& id, base::UnixMs time) {
    ItemUpdate item;
    item.item_id = id;
    item.time_ms = kStart + time;
    return put(item);
  }
  Offset put(const EventBody& body) {
    const Topic topic = event_topic(body);
    const Partition partitions = *log_->partitions(topic);
    const Partition p = topic == Topic::kItems ? 0 : partition_of(event_key(body), partitions);
    return log_->put({topic, p}, event_key(body), event_json(body), kStart);
  }
  IngestLoop& loop() {
    if (!loop_) {
      loop_.emplace(config_, IngestLoop::Parts{*log_, sink_, clock_, steady_, probe_});
    }
    return *loop_;
  }

  base::MetricsRegistry registry_;
  IngestProbe probe_{registry_};
  base::WallClock clock_;
  base::SteadyClock steady_;
  std::optional<MemoryLog> log_{std::in_place, 1};
  RecordingSink sink_;
  IngestConfig config_{.idle_flush_after = std::nullopt,
                       .idle_flush_every = 20ms,
                       .retry_wait_min = 10ms,
                       .retry_wait_max = 20ms,
                       .merge = {},
                       .parser = {}};
  std::optional<IngestLoop> loop_;
  int impressions_ = 0;
};

using Strings = std::vector<std::string>;

TEST_F(IngestLoopTest, ServedRequestsComeBeforeImpressionsOfTheSameTime) {
  put_impression("u", 10);
  ServedRequest request;
  request.request_id = "r";
  request.user_id = "u";
  request.time_ms = kStart + 10;
  put(request);
  ASSERT_TRUE(loop().run_until_end());
  EXPECT_EQ(sink_.applied(), (Strings{"requests/0@0", "impressions/0@0", "close 0"}));
}

TEST_F(IngestLoopTest, RequestsNeedNotBeRead) {
  config_.requests = false;
  log_->set_partitions(Topic::kRequests, 0);  // nor be there
  put_impression("u", 10);
  ASSERT_TRUE(loop().run_until_end());
  EXPECT_EQ(sink_.applied(), (Strings{"impressions/0@0", "close 0"}));
}

TEST_F(IngestLoopTest, AReplayIsAppliedInMergeOrderThenClosed) {
  put_click("u", 20);
  put_impression("u", 10);
  put_click("u", 30);
  put_item("a", 10);
  ASSERT_TRUE(loop().run_until_end());
  EXPECT_EQ(sink_.applied(),
            (Strings{"items/0@0", "impressions/0@0", "clicks/0@0", "clicks/0@1", "close 0"}));
  const IngestState state = loop().state();
  EXPECT_TRUE(state.caught_up);
  EXPECT_TRUE(state.at_end);
  EXPECT_FALSE(state.running);
  EXPECT_EQ(state.records_applied, 4U);
  EXPECT_EQ(state.next_offsets.at({Topic::kClicks, 0}), 2);
  EXPECT_EQ(*loop().measure_lag(), 0U);
}

TEST_F(IngestLoopTest, BadRecordsReachTheSinkAsRejectionsAndTheStreamGoesOn) {
  log_->put({Topic::kClicks, 0}, "u", "{", kStart);
  log_->put({Topic::kClicks, 0}, "u", R"({"user_id":"u","item_id":"a","timestamp":1650812741})");
  put_click("u", 20);
  ASSERT_TRUE(loop().run_until_end());
  EXPECT_EQ(sink_.applied(), (Strings{"clicks/0@0", "clicks/0@1", "clicks/0@2", "close 0"}));
  EXPECT_EQ(probe_.records_in(), 3U);
  EXPECT_EQ(probe_.rejected(RejectReason::kNotJson), 1U);
  EXPECT_EQ(probe_.rejected(RejectReason::kTimeTooSmall), 1U);
}

TEST_F(IngestLoopTest, ResumesAfterTheLastAppliedRecord) {
  for (int i = 0; i < 5; ++i) put_click("u", i);
  ASSERT_TRUE(loop().run_until_end());
  loop_.reset();
  put_click("u", 6);
  ASSERT_TRUE(loop().run_until_end());
  const auto applied = sink_.applied();
  EXPECT_EQ(applied.size(), 5U + 1U + 1U + 1U);
  EXPECT_EQ(applied[6], "clicks/0@5");
  EXPECT_EQ(probe_.records_in(), 6U);  // the record read for its hash is not counted again
}

TEST_F(IngestLoopTest, BatchesKeepTheirLimit) {
  config_.batch_records_max = 3;
  for (int i = 0; i < 8; ++i) put_click("u", i);
  ASSERT_TRUE(loop().run_until_end());
  EXPECT_EQ(sink_.batch_sizes(), (std::vector<std::size_t>{3, 3, 2}));
}

TEST_F(IngestLoopTest, SmallBuffersPauseInputsAndLoseNothing) {
  config_.merge.buffer_records_max = 4;
  config_.batch_records_max = 2;
  for (int i = 0; i < 3000; ++i) put_click("u", 2 * i);
  for (int i = 0; i < 1500; ++i) put_impression("u", 4 * i + 1);
  ASSERT_TRUE(loop().run_until_end());
  EXPECT_EQ(loop().state().records_applied, 4500U);
  Strings expected;
  for (int i = 0; i < 3000; ++i) {
    expected.push_back("clicks/0@" + std::to_string(i));
    if (i % 2 == 0) expected.push_back("impressions/0@" + std::to_string(i / 2));
  }
  expected.push_back("close 0");
  EXPECT_EQ(sink_.applied(), expected);
}

TEST_F(IngestLoopTest, AChangedRecordStopsItsPartitionAndNamesRebuild) {
  use_partitions(2);
  std::string user[2];
  for (int i = 0; user[0].empty() || user[1].empty(); ++i) {
    const std::string name = "u" + std::to_string(i);
    user[partition_of(name, 2)] = name;
  }
  put_click(user[0], 1);
  put_click(user[1], 1);
  sink_.set_position({Topic::kClicks, 0}, {0, kStart, 4711});
  ASSERT_TRUE(loop().start());
  ASSERT_TRUE(eventually([&] { return sink_.count("clicks/1@0") == 1; }));
  const IngestState state = loop().state();
  ASSERT_EQ(state.stopped.size(), 1U);
  const auto& [source, error] = *state.stopped.begin();
  EXPECT_EQ(source, (TopicPartition{Topic::kClicks, 0}));
  EXPECT_EQ(error.code, base::ErrorCode::kCorrupt);
  EXPECT_NE(error.message.find("sirenfeed rebuild"), std::string::npos) << error.message;
  EXPECT_NE(error.message.find("clicks/0"), std::string::npos) << error.message;
  EXPECT_EQ(state.partitions, std::vector<Partition>{1});
  EXPECT_EQ(sink_.count("clicks/0@0"), 0U);
}

TEST_F(IngestLoopTest, MorePartitionsThanAtTheStartStopWhatIsReadByUser) {
  put_click("u", 1);
  ASSERT_TRUE(loop().start());
  ASSERT_TRUE(eventually([&] { return sink_.count("clicks/0@0") == 1; }));
  ASSERT_TRUE(loop().measure_lag());
  EXPECT_TRUE(loop().state().stopped.empty());
  for (const Topic topic : {Topic::kUsers, Topic::kImpressions, Topic::kClicks}) {
    log_->set_partitions(topic, 2);
  }
  ASSERT_TRUE(loop().measure_lag());
  ASSERT_TRUE(eventually([&] { return !loop().state().stopped.empty(); }));
  const IngestState state = loop().state();
  EXPECT_NE(state.stopped.begin()->second.message.find("sirenfeed rebuild"), std::string::npos);
  EXPECT_TRUE(state.partitions.empty());
  put_click("u", 2);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_EQ(sink_.count("clicks/0@1"), 0U);
}

TEST_F(IngestLoopTest, AStateAheadOfTheLogIsAnError) {
  put_click("u", 1);
  for (const Offset ahead : {1, 5}) {
    loop_.reset();
    sink_.set_position({Topic::kClicks, 0}, {ahead, kStart, 1});
    const auto result = loop().run_until_end();
    ASSERT_FALSE(result) << ahead;
    EXPECT_EQ(result.error().code, base::ErrorCode::kCorrupt);
    EXPECT_NE(result.error().message.find("sirenfeed rebuild"), std::string::npos);
  }
}

TEST_F(IngestLoopTest, RetentionMayRemoveTheLastAppliedRecordButNoneAfterIt) {
  for (int i = 0; i < 5; ++i) put_click("u", i);
  log_->trim({Topic::kClicks, 0}, 3);
  sink_.set_position({Topic::kClicks, 0}, {2, kStart, 1});
  ASSERT_TRUE(loop().run_until_end());
  EXPECT_EQ(sink_.count("clicks/0@3"), 1U);
  loop_.reset();
  sink_.set_position({Topic::kClicks, 0}, {1, kStart, 1});
  const auto lost = loop().run_until_end();
  ASSERT_FALSE(lost);
  EXPECT_EQ(lost.error().code, base::ErrorCode::kCorrupt);
}

TEST_F(IngestLoopTest, AFailingSinkGetsTheSameBatchUntilItSucceeds) {
  sink_.fail_with(base::Error{base::ErrorCode::kStorage, "no space left on device"});
  ASSERT_TRUE(loop().start());
  put_click("u", 1);
  ASSERT_TRUE(eventually([&] { return sink_.attempts() >= 3; }));
  ASSERT_TRUE(eventually([&] { return loop().state().sink_error.has_value(); }));
  EXPECT_EQ(loop().state().sink_error->code, base::ErrorCode::kStorage);
  put_click("u", 2);
  sink_.fail_with(std::nullopt);
  ASSERT_TRUE(eventually([&] { return sink_.count("clicks/0@1") == 1; }));
  ASSERT_TRUE(eventually([&] { return !loop().state().sink_error; }));
  EXPECT_EQ(sink_.applied(), (Strings{"clicks/0@0", "clicks/0@1"}));
}

TEST_F(IngestLoopTest, AReplayReturnsTheSinksFirstFailure) {
  put_click("u", 1);
  sink_.fail_with(base::Error{base::ErrorCode::kStorage, "no space left on device"});
  const auto result = loop().run_until_end();
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, base::ErrorCode::kStorage);
  EXPECT_EQ(sink_.attempts(), 1);
}

TEST_F(IngestLoopTest, APositionThatCannotBeReadIsAskedForAgain) {
  put_click("u", 1);
  sink_.fail_positions_with(base::Error{base::ErrorCode::kStorage, "i/o error"});
  ASSERT_TRUE(loop().start());
  ASSERT_TRUE(eventually([&] { return loop().state().input_error.has_value(); }));
  EXPECT_FALSE(loop().state().caught_up);
  sink_.fail_positions_with(std::nullopt);
  EXPECT_TRUE(eventually([&] { return sink_.count("clicks/0@0") == 1; }));
  EXPECT_TRUE(eventually([&] { return !loop().state().input_error; }));
}

TEST_F(IngestLoopTest, LiveRecordsArriveAndIdleInputsDoNotHoldThemUp) {
  ASSERT_TRUE(loop().start());
  ASSERT_TRUE(loop().start());  // idempotent
  ASSERT_TRUE(eventually([&] { return loop().state().caught_up; }));
  put_impression("u", 1);
  put_click("u", 2);
  EXPECT_TRUE(eventually([&] { return sink_.count("clicks/0@0") == 1; }));
  EXPECT_EQ(*loop().measure_lag(), 0U);
  EXPECT_TRUE(eventually([&] { return log_->reported({Topic::kClicks, 0}) == 1; }));
  EXPECT_TRUE(loop().state().running);
  const auto begin = std::chrono::steady_clock::now();
  loop().stop();
  loop().stop();  // idempotent
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 1s);
  EXPECT_FALSE(loop().state().running);
  put_click("u", 3);
  ASSERT_TRUE(loop().start());  // and it may start again
  EXPECT_TRUE(eventually([&] { return sink_.count("clicks/0@1") == 1; }));
}

TEST_F(IngestLoopTest, AGroupMemberReadsItsPartitionsAndAllItems) {
  use_partitions(3);
  config_.group = "g";
  config_.merge.merge_wait_max.reset();
  for (int i = 0; i < 30; ++i) {
    put_impression("u" + std::to_string(i), 2 * i);
    put_click("u" + std::to_string(i), 2 * i + 1);
    put_item("i" + std::to_string(i), 2 * i);
  }
  ASSERT_TRUE(loop().start());
  ASSERT_TRUE(eventually([&] { return loop().state().records_applied == 90; }));
  EXPECT_EQ(loop().state().partitions, (std::vector<Partition>{0, 1, 2}));
  put_item("late", 1000);  // an idle group reader does not hold the items up
  ASSERT_TRUE(eventually([&] { return sink_.count("items/0@30") == 1; }));
  put_click("u1", 1001);
  EXPECT_TRUE(eventually([&] { return loop().state().records_applied == 92; }));
  EXPECT_TRUE(loop().state().at_end || eventually([&] { return loop().state().at_end; }));
}

TEST_F(IngestLoopTest, ItemsDoNotRunAheadWhileTheGroupHasNotGivenPartitions) {
  config_.group = "g";
  config_.merge.merge_wait_max.reset();
  log_->set_group_waits(true);
  put_item("a", 0);
  put_impression("u", 10);
  put_item("a", 20);  // would, say, take down what is shown at 10
  ASSERT_TRUE(loop().start());
  std::this_thread::sleep_for(100ms);
  EXPECT_EQ(sink_.applied(), Strings{});
  log_->set_group_waits(false);
  ASSERT_TRUE(eventually([&] { return loop().state().records_applied == 3; }));
  EXPECT_EQ(sink_.applied(), (Strings{"items/0@0", "impressions/0@0", "items/0@1"}));
}

TEST_F(IngestLoopTest, WhatWasReadButNotAppliedIsNotCaughtUp) {
  put_click("u", 1);
  sink_.fail_with(base::Error{base::ErrorCode::kStorage, "disk full"});
  ASSERT_TRUE(loop().start());
  ASSERT_TRUE(eventually([&] { return sink_.attempts() > 1; }));
  EXPECT_FALSE(loop().state().caught_up);
  sink_.fail_with(std::nullopt);
  ASSERT_TRUE(eventually([&] { return loop().state().caught_up; }));
  EXPECT_EQ(loop().state().records_applied, 1U);
  put_click("u", 2);
  ASSERT_TRUE(eventually([&] { return loop().state().records_applied == 2; }));
  EXPECT_TRUE(loop().state().caught_up);  // once is enough
}

TEST_F(IngestLoopTest, ALostBrokerIsWaitedFor) {
  ASSERT_TRUE(loop().start());
  ASSERT_TRUE(eventually([&] { return loop().state().caught_up; }));
  log_->set_broker_lost(true);
  ASSERT_TRUE(eventually([&] { return loop().state().broker_lost; }));
  put_click("u", 1);
  EXPECT_EQ(sink_.count("clicks/0@0"), 0U);
  log_->set_broker_lost(false);
  EXPECT_TRUE(eventually([&] { return sink_.count("clicks/0@0") == 1; }));
  EXPECT_TRUE(eventually([&] { return !loop().state().broker_lost; }));
}

TEST_F(IngestLoopTest, UnequalPartitionCountsAreNamedAtStart) {
  use_partitions(3);
  log_->set_partitions(Topic::kClicks, 2);
  const auto started = loop().start();
  ASSERT_FALSE(started);
  EXPECT_EQ(started.error().code, base::ErrorCode::kCorrupt);
  EXPECT_NE(started.error().message.find("clicks has 2"), std::string::npos);
  EXPECT_NE(started.error().message.find("impressions has 3"), std::string::npos);
  log_->set_partitions(Topic::kClicks, 0);
  EXPECT_EQ(loop().start().error().code, base::ErrorCode::kNotFound);
}

TEST_F(IngestLoopTest, IdlePartitionsAreFlushedAgainAndAgainUntilSomethingComes) {
  config_.idle_flush_after = 30ms;
  ASSERT_TRUE(loop().start());
  put_click("u", 1);
  ASSERT_TRUE(eventually([&] { return sink_.count("idle 0") >= 2; }));
  EXPECT_EQ(sink_.applied().front(), "clicks/0@0");
  log_->set_broker_lost(true);  // silence is no proof of an end
  ASSERT_TRUE(eventually([&] { return loop().state().broker_lost; }));
  const auto flushed = sink_.count("idle 0");
  std::this_thread::sleep_for(100ms);
  EXPECT_LE(sink_.count("idle 0"), flushed + 1);
}

TEST_F(IngestLoopTest, WindowsAreClosedAfterEverythingThatIsInTheLog) {
  use_partitions(2);
  for (int i = 0; i < 50; ++i) put_click("u" + std::to_string(i), i);
  ASSERT_TRUE(loop().start());
  for (int i = 50; i < 100; ++i) put_click("u" + std::to_string(i), i);
  auto closed = loop().close_windows();
  ASSERT_EQ(closed.wait_for(5s), std::future_status::ready);
  ASSERT_TRUE(closed.get());
  const auto applied = sink_.applied();
  ASSERT_EQ(applied.size(), 102U);
  EXPECT_EQ(applied[100], "close 0");
  EXPECT_EQ(applied[101], "close 1");
}

TEST_F(IngestLoopTest, AskingAStoppedLoopToCloseWindowsIsAnError) {
  EXPECT_EQ(loop().close_windows().get().error().code, base::ErrorCode::kClosed);
  ASSERT_TRUE(loop().start());
  log_->set_broker_lost(true);
  put_click("u", 1);
  ASSERT_TRUE(eventually([&] { return loop().state().broker_lost; }));
  auto closed = loop().close_windows();
  std::this_thread::sleep_for(50ms);
  loop().stop();
  EXPECT_EQ(closed.get().error().code, base::ErrorCode::kClosed);
}

TEST(IngestConfig, NamesTheBadField) {
  IngestConfig config;
  EXPECT_TRUE(config.validate());
  config.poll_wait = 2s;
  ASSERT_FALSE(config.validate());
  EXPECT_NE(config.validate().error().message.find("poll_wait"), std::string::npos);
}

}  // namespace
}  // namespace sirenfeed::ingest
