#include "ingest/event_merge.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <string>
#include <tuple>
#include <vector>

namespace sirenfeed::ingest {
namespace {

using namespace std::chrono_literals;

constexpr TopicPartition kItems0{Topic::kItems, 0};
constexpr TopicPartition kUsers0{Topic::kUsers, 0};
constexpr TopicPartition kImpressions0{Topic::kImpressions, 0};
constexpr TopicPartition kImpressions1{Topic::kImpressions, 1};
constexpr TopicPartition kClicks0{Topic::kClicks, 0};

class ManualSteady final : public base::SteadyClock {
 public:
  [[nodiscard]] base::SteadyTime now() const override { return now_; }
  void pass(std::chrono::milliseconds time) { now_ += time; }

 private:
  base::SteadyTime now_{1h};
};

InputRecord record(TopicPartition source, Offset offset, base::UnixMs time_ms) {
  InputRecord out;
  out.source = source;
  out.offset = offset;
  out.time_ms = time_ms;
  return out;
}

InputRecord rejected(TopicPartition source, Offset offset, base::UnixMs time_ms) {
  InputRecord out = record(source, offset, time_ms);
  out.content = Rejection{};
  return out;
}

class EventMergeTest : public testing::Test {
 protected:
  explicit EventMergeTest() = default;
  void make(MergeConfig config, const std::vector<TopicPartition>& inputs) {
    merge_.emplace(config, steady_);
    for (const TopicPartition input : inputs) merge_->add(input);
  }
  /// "impressions@5 clicks@6": what may be handed out now.
  std::string taken(std::size_t records_max = 100) {
    std::vector<InputRecord> out;
    merge_->take(records_max, 1U << 30U, out);
    std::string text;
    for (const InputRecord& entry : out) {
      if (!text.empty()) text += ' ';
      text += std::string(topic_name(entry.source.topic)) + '@' + std::to_string(entry.time_ms);
    }
    return text;
  }

  static constexpr MergeConfig kUnlimited{std::nullopt, 10'000, 1U << 24U};
  ManualSteady steady_;
  std::optional<EventMerge> merge_;
};

TEST_F(EventMergeTest, WaitsForEveryOtherInput) {
  make(kUnlimited, {kImpressions0, kClicks0, kItems0});
  merge_->push(record(kImpressions0, 0, 10));
  EXPECT_EQ(taken(), "");
  merge_->push(record(kClicks0, 0, 5));
  EXPECT_EQ(taken(), "");  // items may still bring something earlier
  merge_->push(record(kItems0, 0, 7));
  EXPECT_EQ(taken(), "clicks@5");  // now clicks may
  merge_->push(record(kClicks0, 1, 20));
  EXPECT_EQ(taken(), "items@7");
}

TEST_F(EventMergeTest, OneTimestampIsOrderedByTopicThenPartitionThenOffset) {
  make(kUnlimited, {kImpressions1, kClicks0, kItems0, kUsers0, kImpressions0});
  for (const TopicPartition input : {kClicks0, kImpressions1, kUsers0, kItems0, kImpressions0}) {
    merge_->push(record(input, 0, 10));
    merge_->push(record(input, 1, 10));
  }
  for (const TopicPartition input : {kClicks0, kImpressions1, kUsers0, kItems0, kImpressions0}) {
    merge_->at_end(input);
  }
  std::vector<InputRecord> out;
  merge_->take(100, 1U << 30U, out);
  ASSERT_EQ(out.size(), 10U);
  for (std::size_t i = 0; i < out.size(); ++i) EXPECT_EQ(out[i].offset, i % 2);
  EXPECT_EQ(out[0].source, kItems0);
  EXPECT_EQ(out[2].source, kUsers0);
  EXPECT_EQ(out[4].source, kImpressions0);
  EXPECT_EQ(out[6].source, kImpressions1);
  EXPECT_EQ(out[8].source, kClicks0);
  EXPECT_TRUE(merge_->empty());
  EXPECT_EQ(merge_->buffered_bytes(), 0U);
}

TEST_F(EventMergeTest, AnEndSeenBeforeTheHeadArrivedIsNoLongerTrue) {
  make(kUnlimited, {kImpressions0, kClicks0});
  merge_->at_end(kClicks0);
  merge_->push(record(kImpressions0, 0, 10));
  EXPECT_EQ(taken(), "");
  merge_->at_end(kClicks0);
  EXPECT_EQ(taken(), "impressions@10");
  merge_->push(record(kImpressions0, 1, 11));
  EXPECT_EQ(taken(), "");
}

TEST_F(EventMergeTest, AnEndSeenWhileRecordsWereBufferedCountsOnceTheyAreGone) {
  make(kUnlimited, {kImpressions0, kClicks0});
  merge_->push(record(kImpressions0, 0, 10));
  merge_->push(record(kClicks0, 0, 5));
  merge_->at_end(kClicks0);
  EXPECT_EQ(taken(), "clicks@5 impressions@10");
}

TEST_F(EventMergeTest, AHeadThatWaitedLongEnoughGoesAlone) {
  make({50ms, 10'000, 1U << 24U}, {kImpressions0, kClicks0});
  EXPECT_EQ(merge_->next_deadline(), std::nullopt);
  merge_->push(record(kImpressions0, 0, 10));
  EXPECT_EQ(merge_->next_deadline(), steady_.now() + 50ms);
  steady_.pass(49ms);
  merge_->push(record(kImpressions0, 1, 11));
  EXPECT_EQ(taken(), "");
  steady_.pass(1ms);
  EXPECT_EQ(taken(), "impressions@10");
  EXPECT_EQ(taken(), "");  // the second has waited for 1 ms only
  steady_.pass(49ms);
  EXPECT_EQ(taken(), "impressions@11");
}

TEST_F(EventMergeTest, RecordsAfterALaterOneAreCountedAsOutOfOrder) {
  make({0ms, 10'000, 1U << 24U}, {kImpressions0, kClicks0});
  merge_->push(record(kImpressions0, 0, 10));
  EXPECT_EQ(taken(), "impressions@10");
  merge_->push(record(kClicks0, 0, 9));
  merge_->push(record(kClicks0, 1, 10));
  EXPECT_EQ(taken(), "clicks@9 clicks@10");
  EXPECT_EQ(merge_->out_of_order(), 1U);
}

TEST_F(EventMergeTest, ARejectedRecordHoldsNothingUp) {
  make(kUnlimited, {kImpressions0, kClicks0});
  merge_->push(record(kImpressions0, 0, 10));
  merge_->push(rejected(kImpressions0, 1, 1'000'000));  // arrived years after its neighbours
  merge_->push(record(kImpressions0, 2, 12));
  merge_->push(record(kClicks0, 0, 11));
  merge_->push(record(kClicks0, 1, 13));
  EXPECT_EQ(taken(), "impressions@10 impressions@1000000 clicks@11 impressions@12");
  EXPECT_EQ(merge_->out_of_order(), 0U);
}

TEST_F(EventMergeTest, ARemovedInputIsNotWaitedForAndItsRecordsAreGone) {
  make(kUnlimited, {kImpressions0, kClicks0, kUsers0});
  merge_->push(record(kImpressions0, 0, 10));
  merge_->push(record(kClicks0, 0, 5));
  merge_->remove(kUsers0);
  merge_->remove(kClicks0);
  EXPECT_EQ(taken(), "impressions@10");
  merge_->push(record(kClicks0, 1, 6));  // of no input any more
  EXPECT_TRUE(merge_->empty());
  EXPECT_EQ(merge_->buffered_records(), 0U);
  EXPECT_EQ(merge_->buffered_bytes(), 0U);
}

TEST_F(EventMergeTest, InputsAreFullAndDrainedByRecordsAndBytes) {
  make({std::nullopt, 4, 1U << 24U}, {kImpressions0, kClicks0});
  for (Offset i = 0; i < 4; ++i) {
    EXPECT_FALSE(merge_->full(kImpressions0));
    merge_->push(record(kImpressions0, i, 10 + i));
  }
  EXPECT_TRUE(merge_->full(kImpressions0));
  EXPECT_FALSE(merge_->drained(kImpressions0));
  EXPECT_TRUE(merge_->drained(kClicks0));
  merge_->at_end(kClicks0);
  EXPECT_EQ(taken(1), "impressions@10");
  EXPECT_FALSE(merge_->full(kImpressions0));
  EXPECT_FALSE(merge_->drained(kImpressions0));
  EXPECT_EQ(taken(1), "impressions@11");
  EXPECT_TRUE(merge_->drained(kImpressions0));

  make({std::nullopt, 100, 10'000}, {kImpressions0});
  InputRecord large = record(kImpressions0, 0, 10);
  large.payload.assign(6'000, 'x');
  merge_->push(std::move(large));
  EXPECT_TRUE(merge_->full(kImpressions0));
}

TEST_F(EventMergeTest, BatchesKeepTheirLimitsButTakeOneLargeRecord) {
  make(kUnlimited, {kImpressions0});
  for (Offset i = 0; i < 3; ++i) {
    InputRecord large = record(kImpressions0, i, 10 + i);
    large.payload.assign(6'000, 'x');
    merge_->push(std::move(large));
  }
  std::vector<InputRecord> out;
  EXPECT_EQ(merge_->take(100, 100, out), 1U);
  EXPECT_EQ(merge_->take(1, 1U << 30U, out), 1U);
  EXPECT_EQ(merge_->take(100, 1U << 30U, out), 1U);
  EXPECT_EQ(out.size(), 3U);
}

// Records of several inputs, each in order, arrive interleaved at random with ends where they are
// true; whatever the interleaving, the output is the sorted whole.
TEST_F(EventMergeTest, AnyInterleavingGivesTheSortedWhole) {
  for (unsigned seed = 1; seed <= 200; ++seed) {
    std::mt19937 random(seed);
    const std::vector<TopicPartition> inputs{kItems0, kUsers0, kImpressions0, kImpressions1,
                                             kClicks0};
    make(kUnlimited, inputs);
    std::vector<std::vector<InputRecord>> left(inputs.size());
    std::vector<std::tuple<base::UnixMs, TopicPartition, Offset>> expected;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      base::UnixMs time = 0;
      const auto count = random() % 40;
      for (Offset offset = 0; offset < static_cast<Offset>(count); ++offset) {
        time += random() % 4;
        left[i].push_back(record(inputs[i], offset, time));
        expected.emplace_back(time, inputs[i], offset);
      }
    }
    std::sort(expected.begin(), expected.end());
    std::vector<InputRecord> out;
    std::vector<std::size_t> read(inputs.size(), 0);
    while (out.size() < expected.size()) {
      const std::size_t i = random() % inputs.size();
      if (read[i] < left[i].size()) {
        merge_->push(left[i][read[i]++]);
      } else {
        merge_->at_end(inputs[i]);
      }
      if (random() % 3 == 0) merge_->take(1 + random() % 20, 1U << 30U, out);
    }
    for (std::size_t i = 0; i < out.size(); ++i) {
      ASSERT_EQ(std::tuple(out[i].time_ms, out[i].source, out[i].offset), expected[i])
          << "seed " << seed << ", record " << i;
    }
    EXPECT_EQ(merge_->out_of_order(), 0U);
  }
}

}  // namespace
}  // namespace sirenfeed::ingest
