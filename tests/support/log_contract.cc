#include "tests/support/log_contract.h"

#include <gmock/gmock.h>

#include <atomic>
#include <thread>

namespace sirenfeed::ingest {
namespace {

using base::ErrorCode;
using std::chrono::milliseconds;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr TopicPartition kClicks0{Topic::kClicks, 0};
constexpr TopicPartition kClicks1{Topic::kClicks, 1};
constexpr TopicPartition kImpressions1{Topic::kImpressions, 1};

}  // namespace

std::vector<std::string> EventLogContract::Seen::values(TopicPartition source) const {
  std::vector<std::string> values;
  const auto found = records.find(source);
  if (found == records.end()) return values;
  for (const LogRecord& record : found->second) values.push_back(record.value.value_or("(null)"));
  return values;
}

std::size_t EventLogContract::Seen::count() const {
  std::size_t count = 0;
  for (const auto& [source, list] : records) count += list.size();
  return count;
}

std::vector<Offset> EventLogContract::append_all(TopicPartition target,
                                                 const std::vector<std::string>& values) {
  auto writer = log().open_writer("test-writer");
  EXPECT_TRUE(writer) << writer.error().message;
  std::vector<Offset> offsets(values.size(), -1);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto appended =
        (*writer)->append(target, "k", values[i], 1'000 + static_cast<base::UnixMs>(i),
                          [&offsets, i](base::Result<Offset> offset) {
                            EXPECT_TRUE(offset) << offset.error().message;
                            if (offset) offsets[i] = *offset;
                          });
    EXPECT_TRUE(appended) << appended.error().message;
  }
  const auto flushed = (*writer)->flush(kPatience);
  EXPECT_TRUE(flushed) << flushed.error().message;
  return offsets;
}

std::unique_ptr<LogReader> EventLogContract::reader(ReaderOptions options) {
  options.name = "test-reader";
  auto opened = log().open_reader(std::move(options));
  EXPECT_TRUE(opened) << opened.error().message;
  return opened ? *std::move(opened) : nullptr;
}

EventLogContract::Seen EventLogContract::poll_until(LogReader& reader,
                                                    const std::function<bool(const Seen&)>& done) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  Seen seen;
  while (!done(seen) && std::chrono::steady_clock::now() < deadline) {
    auto batch = reader.poll(kPollWait);
    if (!batch) {
      seen.error = batch.error();
      break;
    }
    for (LogRecord& record : batch->records) {
      seen.records[record.source].push_back(std::move(record));
    }
    for (const TopicPartition source : batch->at_end) ++seen.ends[source];
  }
  return seen;
}

EventLogContract::Seen EventLogContract::poll_to_end(LogReader& reader,
                                                     const std::vector<TopicPartition>& sources) {
  return poll_until(reader, [&](const Seen& seen) {
    return std::ranges::all_of(sources, [&](auto source) { return seen.ends.contains(source); });
  });
}

TEST_P(EventLogContract, PartitionCountsAreTold) {
  EXPECT_EQ(log().partitions(Topic::kClicks), LogUnderTest::kPartitions);
  EXPECT_EQ(log().partitions(Topic::kItems), 1);
}

TEST_P(EventLogContract, OffsetsCountFromZeroInEachPartition) {
  EXPECT_THAT(append_all(kClicks0, {"a", "b", "c"}), ElementsAre(0, 1, 2));
  EXPECT_THAT(append_all(kClicks1, {"d"}), ElementsAre(0));
  EXPECT_THAT(append_all(kClicks0, {"e"}), ElementsAre(3));
  const auto bounds = log().bounds(kClicks0);
  ASSERT_TRUE(bounds) << bounds.error().message;
  EXPECT_EQ(bounds->first, 0);
  EXPECT_EQ(bounds->next, 4);
}

TEST_P(EventLogContract, ARecordComesBackAsItWasAppended) {
  auto writer = log().open_writer("w");
  ASSERT_TRUE(writer);
  ASSERT_TRUE((*writer)->append(kClicks0, "key", "value", 1'650'812'741'436, {}));
  ASSERT_TRUE((*writer)->append(kClicks0, "key", std::nullopt, 1'650'812'741'437, {}));
  ASSERT_TRUE((*writer)->append(kClicks0, std::nullopt, "", 1'650'812'741'438, {}));
  ASSERT_TRUE((*writer)->append(kClicks0, std::string("\0x", 2), std::string("\xff\0", 2), 9, {}));
  ASSERT_TRUE((*writer)->flush(kPatience));
  const auto reading = reader();
  ASSERT_TRUE(reading->assign(kClicks0, std::nullopt));
  const Seen seen = poll_to_end(*reading, {kClicks0});
  ASSERT_EQ(seen.count(), 4U);
  const auto& records = seen.records.at(kClicks0);
  EXPECT_EQ(records[0].source, kClicks0);
  EXPECT_EQ(records[0].offset, 0);
  EXPECT_EQ(records[0].log_time_ms, 1'650'812'741'436);
  EXPECT_EQ(records[0].key, "key");
  EXPECT_EQ(records[0].value, "value");
  EXPECT_EQ(records[1].value, std::nullopt);
  EXPECT_EQ(records[2].key, std::nullopt);
  EXPECT_EQ(records[2].value, "");
  EXPECT_EQ(records[3].key, std::string("\0x", 2));
  EXPECT_EQ(records[3].value, std::string("\xff\0", 2));
}

TEST_P(EventLogContract, AKeyedNullValueIsATombstoneOnTheCompactedTopics) {
  auto writer = log().open_writer("w");
  ASSERT_TRUE(writer);
  for (const Topic topic : {Topic::kItems, Topic::kUsers}) {
    ASSERT_TRUE((*writer)->append({topic, 0}, "id", std::nullopt, 1'650'812'741'437, {}));
  }
  ASSERT_TRUE((*writer)->flush(kPatience));
  const auto reading = reader();
  ASSERT_TRUE(reading->assign({Topic::kItems, 0}, std::nullopt));
  const Seen seen = poll_to_end(*reading, {{Topic::kItems, 0}});
  ASSERT_EQ(seen.count(), 1U);
  const LogRecord& record = seen.records.at({Topic::kItems, 0}).front();
  EXPECT_EQ(record.key, "id");
  EXPECT_EQ(record.value, std::nullopt);
  EXPECT_EQ(record.log_time_ms, 1'650'812'741'437);
}

TEST_P(EventLogContract, ReadingStartsAtTheOffsetAsked) {
  append_all(kClicks0, {"a", "b", "c", "d"});
  const auto reading = reader();
  ASSERT_TRUE(reading->assign(kClicks0, 2));
  EXPECT_THAT(poll_to_end(*reading, {kClicks0}).values(kClicks0), ElementsAre("c", "d"));
  ASSERT_TRUE(reading->assign(kClicks0, 1));  // again, elsewhere
  EXPECT_THAT(poll_to_end(*reading, {kClicks0}).values(kClicks0), ElementsAre("b", "c", "d"));
}

TEST_P(EventLogContract, TheNextOffsetToComeMayBeAssigned) {
  append_all(kClicks0, {"a"});
  const auto reading = reader();
  ASSERT_TRUE(reading->assign(kClicks0, 1));
  EXPECT_EQ(poll_to_end(*reading, {kClicks0}).count(), 0U);
  append_all(kClicks0, {"b"});
  const Seen seen = poll_until(*reading, [](const Seen& s) { return s.count() > 0; });
  EXPECT_THAT(seen.values(kClicks0), ElementsAre("b"));
}

TEST_P(EventLogContract, AnOffsetThatTheLogDoesNotHaveStopsThatPartitionAlone) {
  append_all(kClicks0, {"a"});
  append_all(kClicks1, {"b"});
  const auto reading = reader();
  ASSERT_TRUE(reading->assign(kClicks0, 7));
  const Seen failed = poll_until(*reading, [](const Seen&) { return false; });
  ASSERT_TRUE(failed.error);
  EXPECT_EQ(failed.error->code, ErrorCode::kCorrupt);
  EXPECT_THAT(failed.error->message, HasSubstr("clicks"));
  EXPECT_THAT(failed.error->message, HasSubstr("7"));
  ASSERT_TRUE(reading->assign(kClicks1, std::nullopt));
  const Seen seen = poll_to_end(*reading, {kClicks1});
  EXPECT_FALSE(seen.error) << seen.error->message;
  EXPECT_THAT(seen.values(kClicks1), ElementsAre("b"));
}

TEST_P(EventLogContract, TheEndIsToldOnceReachedAndAgainWithRecordsOfOthers) {
  append_all(kClicks0, {"a"});
  const auto reading = reader();
  ASSERT_TRUE(reading->assign(kClicks0, std::nullopt));
  ASSERT_TRUE(reading->assign(kClicks1, std::nullopt));
  const Seen first = poll_to_end(*reading, {kClicks0, kClicks1});
  EXPECT_EQ(first.count(), 1U);
  append_all(kClicks0, {"b"});
  // clicks/1 is as it was, and is named with (or after) the record of clicks/0.
  const Seen second = poll_until(
      *reading, [](const Seen& seen) { return seen.count() > 0 && seen.ends.contains(kClicks1); });
  EXPECT_THAT(second.values(kClicks0), ElementsAre("b"));
  EXPECT_TRUE(second.ends.contains(kClicks1));
}

TEST_P(EventLogContract, AnEndIsToldAgainWhenAsked) {
  append_all(kClicks0, {"a"});
  const auto reading = reader();
  ASSERT_TRUE(reading->assign(kClicks0, std::nullopt));
  poll_to_end(*reading, {kClicks0});
  const auto idle = reading->poll(milliseconds(50));
  ASSERT_TRUE(idle) << idle.error().message;
  EXPECT_TRUE(idle->at_end.empty());
  reading->confirm_ends();
  EXPECT_TRUE(poll_to_end(*reading, {kClicks0}).ends.contains(kClicks0));
}

TEST_P(EventLogContract, AnEndIsNeverToldBeforeTheRecordsInFrontOfIt) {
  append_all(kClicks0, std::vector<std::string>(2'500, "x"));
  const auto reading = reader();
  ASSERT_TRUE(reading->assign(kClicks0, std::nullopt));
  EXPECT_EQ(poll_to_end(*reading, {kClicks0}).count(), 2'500U);
}

TEST_P(EventLogContract, APausedPartitionIsSilentAndLosesNothing) {
  append_all(kClicks0, {"a", "b"});
  append_all(kClicks1, {"c"});
  const auto reading = reader();
  ASSERT_TRUE(reading->assign(kClicks0, std::nullopt));
  ASSERT_TRUE(reading->assign(kClicks1, std::nullopt));
  ASSERT_TRUE(reading->pause(kClicks0));
  const Seen others = poll_to_end(*reading, {kClicks1});
  EXPECT_THAT(others.values(kClicks1), ElementsAre("c"));
  const auto idle = reading->poll(milliseconds(300));
  ASSERT_TRUE(idle) << idle.error().message;
  EXPECT_TRUE(idle->records.empty());
  EXPECT_TRUE(others.values(kClicks0).empty());
  EXPECT_FALSE(others.ends.contains(kClicks0));
  append_all(kClicks0, {"d"});
  ASSERT_TRUE(reading->resume(kClicks0));
  EXPECT_THAT(poll_to_end(*reading, {kClicks0}).values(kClicks0), ElementsAre("a", "b", "d"));
}

TEST_P(EventLogContract, PausingInTheMiddleKeepsTheOrder) {
  std::vector<std::string> values;
  for (int i = 0; i < 3'000; ++i) values.push_back(std::to_string(i));
  append_all(kClicks0, values);
  const auto reading = reader(ReaderOptions{.poll_records_max = 100});
  ASSERT_TRUE(reading->assign(kClicks0, std::nullopt));
  std::vector<std::string> got;
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  for (int turn = 0; got.size() < values.size() && std::chrono::steady_clock::now() < deadline;
       ++turn) {
    const auto batch = reading->poll(kPollWait);
    ASSERT_TRUE(batch) << batch.error().message;
    EXPECT_LE(batch->records.size(), 100U);
    for (const LogRecord& record : batch->records) got.push_back(record.value.value_or(""));
    if (turn % 5 != 0) continue;
    ASSERT_TRUE(reading->pause(kClicks0));
    const auto paused = reading->poll(milliseconds(5));
    ASSERT_TRUE(paused) << paused.error().message;
    EXPECT_TRUE(paused->records.empty());
    ASSERT_TRUE(reading->resume(kClicks0));
  }
  EXPECT_EQ(got, values);
}

TEST_P(EventLogContract, AnUnassignedPartitionIsSilent) {
  append_all(kClicks0, {"a"});
  append_all(kClicks1, {"b"});
  const auto reading = reader();
  ASSERT_TRUE(reading->assign(kClicks0, std::nullopt));
  ASSERT_TRUE(reading->assign(kClicks1, std::nullopt));
  ASSERT_TRUE(reading->unassign(kClicks0));
  const Seen seen = poll_to_end(*reading, {kClicks1});
  EXPECT_THAT(seen.values(kClicks0), ElementsAre());
  EXPECT_THAT(seen.values(kClicks1), ElementsAre("b"));
  for (const auto& refused :
       {reading->unassign(kClicks0), reading->pause(kClicks0), reading->resume(kClicks0)}) {
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::kNotFound);
  }
}

TEST_P(EventLogContract, AWaitingReaderWakesForANewRecord) {
  const auto reading = reader();
  ASSERT_TRUE(reading->assign(kClicks0, std::nullopt));
  poll_to_end(*reading, {kClicks0});
  auto appended = std::async(std::launch::async, [this] {
    std::this_thread::sleep_for(milliseconds(100));
    append_all(kClicks0, {"late"});
  });
  const auto start = std::chrono::steady_clock::now();
  std::vector<std::string> values;
  while (values.empty() && std::chrono::steady_clock::now() - start < kPatience) {
    const auto batch = reading->poll(kPatience);
    ASSERT_TRUE(batch) << batch.error().message;
    for (const LogRecord& record : batch->records) values.push_back(record.value.value_or(""));
  }
  appended.wait();
  EXPECT_THAT(values, ElementsAre("late"));
  EXPECT_LT(std::chrono::steady_clock::now() - start, kPatience / 2);
}

TEST_P(EventLogContract, AnIdlePollEndsWithItsTimeout) {
  const auto reading = reader();
  const auto start = std::chrono::steady_clock::now();
  const auto batch = reading->poll(milliseconds(100));
  ASSERT_TRUE(batch) << batch.error().message;
  EXPECT_TRUE(batch->records.empty());
  EXPECT_GE(std::chrono::steady_clock::now() - start, milliseconds(90));
}

TEST_P(EventLogContract, SeveralReadersSeeTheSame) {
  append_all(kClicks0, {"a", "b"});
  const auto one = reader();
  const auto other = reader();
  ASSERT_TRUE(one->assign(kClicks0, std::nullopt));
  ASSERT_TRUE(other->assign(kClicks0, std::nullopt));
  EXPECT_THAT(poll_to_end(*one, {kClicks0}).values(kClicks0), ElementsAre("a", "b"));
  EXPECT_THAT(poll_to_end(*other, {kClicks0}).values(kClicks0), ElementsAre("a", "b"));
}

TEST_P(EventLogContract, AnOversizeRecordIsRefusedByNameAndTheWriterLives) {
  auto writer = log().open_writer("w");
  ASSERT_TRUE(writer);
  std::atomic<int> reports = 0;
  const auto refused =
      (*writer)->append(kClicks0, "key", std::string(LogUnderTest::kMessageBytesMax, 'x'), 1,
                        [&](auto) { ++reports; });
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kTooLarge);
  EXPECT_THAT(refused.error().message, HasSubstr("message_bytes_max"));
  const std::string largest(LogUnderTest::kMessageBytesMax - 3, 'x');
  EXPECT_TRUE((*writer)->append(kClicks0, "key", largest, 1, [&](auto) { ++reports; }));
  EXPECT_TRUE((*writer)->flush(kPatience));
  EXPECT_EQ(reports, 1);
}

TEST_P(EventLogContract, WhatDoesNotExistIsNotFound) {
  auto writer = log().open_writer("w");
  ASSERT_TRUE(writer);
  const TopicPartition beyond{Topic::kClicks, LogUnderTest::kPartitions};
  const auto appended = (*writer)->append(beyond, "k", "v", 1, {});
  ASSERT_FALSE(appended);
  EXPECT_EQ(appended.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(appended.error().message, HasSubstr("clicks"));
  const auto bounds = log().bounds(beyond);
  ASSERT_FALSE(bounds);
  EXPECT_EQ(bounds.error().code, ErrorCode::kNotFound);
}

TEST_P(EventLogContract, DeliveriesAreReportedInAppendOrder) {
  auto writer = log().open_writer("w");
  ASSERT_TRUE(writer);
  std::vector<Offset> reported;
  for (int i = 0; i < 2'000; ++i) {
    ASSERT_TRUE((*writer)->append(kImpressions1, "k", "v", 1, [&](base::Result<Offset> o) {
      reported.push_back(o.value_or(-1));
    }));
  }
  ASSERT_TRUE((*writer)->flush(kPatience));
  ASSERT_EQ(reported.size(), 2'000U);
  for (std::size_t i = 0; i < reported.size(); ++i) {
    ASSERT_EQ(reported[i], static_cast<Offset>(i));
  }
}

TEST_P(EventLogContract, WritersOnManyThreadsLoseNothing) {
  auto writer = log().open_writer("w");
  ASSERT_TRUE(writer);
  constexpr int kThreads = 4, kEach = 500;
  std::vector<std::jthread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < kEach; ++i) EXPECT_TRUE((*writer)->append(kClicks0, "k", "v", 1, {}));
    });
  }
  threads.clear();
  ASSERT_TRUE((*writer)->flush(kPatience));
  EXPECT_EQ(log().bounds(kClicks0)->next, kThreads * kEach);
}

TEST_P(EventLogContract, EveryAppendIsReportedWhenTheWriterEnds) {
  std::atomic<int> reports = 0;
  {
    auto writer = log().open_writer("w");
    ASSERT_TRUE(writer);
    for (int i = 0; i < 100; ++i) {
      ASSERT_TRUE((*writer)->append(kClicks0, "k", "v", 1, [&](auto) { ++reports; }));
    }
  }
  EXPECT_EQ(reports, 100);
}

TEST_P(EventLogContract, AGroupsOnlyMemberGetsAllPartitionsOnce) {
  append_all({Topic::kImpressions, 2}, {"i"});
  append_all({Topic::kClicks, 2}, {"c"});
  std::vector<Partition> assigned;
  LogReader* member = nullptr;
  ReaderOptions options;
  options.group = "test-group";
  options.member = "member-1";
  options.listener.on_assigned = [&](std::span<const Partition> partitions) {
    for (const Partition p : partitions) {
      assigned.push_back(p);
      for (const Topic topic : {Topic::kImpressions, Topic::kClicks, Topic::kUsers}) {
        EXPECT_TRUE(member->assign({topic, p}, std::nullopt));
      }
    }
  };
  options.listener.on_revoked = [&](std::span<const Partition> partitions) {
    for (const Partition p : partitions) {
      for (const Topic topic : {Topic::kImpressions, Topic::kClicks, Topic::kUsers}) {
        EXPECT_TRUE(member->unassign({topic, p}));
      }
    }
  };
  auto opened = log().open_reader(std::move(options));
  ASSERT_TRUE(opened) << opened.error().message;
  member = opened->get();
  const Seen seen = poll_to_end(*member, {{Topic::kImpressions, 0},
                                          {Topic::kClicks, 1},
                                          {Topic::kImpressions, 2},
                                          {Topic::kClicks, 2},
                                          {Topic::kUsers, 2}});
  EXPECT_FALSE(seen.error) << seen.error->message;
  EXPECT_THAT(assigned, testing::UnorderedElementsAre(0, 1, 2));
  EXPECT_THAT(seen.values({Topic::kImpressions, 2}), ElementsAre("i"));
  EXPECT_THAT(seen.values({Topic::kClicks, 2}), ElementsAre("c"));
  member->report_position({Topic::kImpressions, 2}, 1);
}

}  // namespace sirenfeed::ingest
