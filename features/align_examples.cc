#include "features/align_examples.h"

#include <example.pb.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "base/log.h"
#include "features/join_windows.h"

namespace sirenfeed::features {
namespace {

constexpr std::chrono::milliseconds kPoll{200};
constexpr int kPollsMax = 50;
// Late impressions and corrections stand between the others: enough to find the furthest.
constexpr ingest::Offset kLastExamples = 2'000;

using Order = std::pair<std::uint64_t, std::uint64_t>;  // epoch, sequence

// The last `count` examples; fewer where retention has taken some. What is none is left out.
base::Result<std::vector<Example>> read_last(ingest::EventLog& log, ingest::TopicPartition source,
                                             ingest::Offset count) {
  std::vector<Example> examples;
  SF_ASSIGN(const auto bounds, log.bounds(source));
  if (bounds.next <= bounds.first) return examples;
  SF_ASSIGN(
      const auto reader,
      log.open_reader({.name = "sirenfeed-align", .group = {}, .member = {}, .listener = {}}));
  SF_TRY(reader->assign(source, std::max(bounds.next - count, bounds.first)));
  for (int quiet = 0; quiet < kPollsMax; ++quiet) {
    SF_ASSIGN(const ingest::PollBatch batch, reader->poll(kPoll));
    if (!batch.records.empty()) quiet = 0;
    for (const ingest::LogRecord& record : batch.records) {
      Example example;
      if (record.value && example.ParseFromString(*record.value)) {
        examples.push_back(std::move(example));
      }
      if (record.offset + 1 >= bounds.next) return examples;
    }
    if (!batch.at_end.empty()) return examples;
  }
  return base::fail(
      base::ErrorCode::kUnavailable, "the newest records of {}/{} did not come within {} s",
      ingest::topic_name(source.topic), source.partition, kPollsMax * kPoll.count() / 1000);
}

// Nullopt: `examples` is empty.
std::optional<SentExamples> summary_of(const std::vector<Example>& examples, Order written,
                                       const JoinConfig& join) {
  if (examples.empty()) return std::nullopt;
  SentExamples sent{examples.back().epoch(), examples.back().sequence()};
  LeavingRank furthest;
  for (const Example& example : examples) {
    if (Order(example.epoch(), example.sequence()) <= written) continue;
    const LeavingRank rank =
        rank_of(join, example.closed_ms(), example.time_ms(), example.impression_offset());
    if (example.revision() > 0) {
      ++sent.corrections;
    } else if (!sent.furthest || rank >= furthest) {
      furthest = rank;
      sent.furthest.emplace(example.time_ms(), example.impression_offset());
      sent.furthest_closed_ms = example.closed_ms();
      sent.corrections = 0;
    }
  }
  return sent;
}

}  // namespace

base::Result<void> align_examples(FeatureState& state, ingest::EventLog& log) {
  for (ingest::Partition p = 0; p < state.config().partitions; ++p) {
    const ingest::TopicPartition source{ingest::Topic::kExamples, p};
    const SentExamples at = state.written_examples(p);
    const Order written(at.epoch, at.sequence);
    SF_ASSIGN(auto newest, read_last(log, source, 1));
    const bool known = !newest.empty() && Order(newest[0].epoch(), newest[0].sequence()) <= written;
    if (known) continue;
    SF_ASSIGN(newest, read_last(log, source, kLastExamples));
    const auto sent = summary_of(newest, written, state.config().join);
    if (!sent) continue;
    SF_ASSIGN(const bool resumed, state.resume_examples(p, *sent));
    if (!resumed) continue;
    base::log_warning(
        "partition {}: topic examples holds epoch {} up to sequence {}, this state has written "
        "epoch {} up to {}: it is new, or older. It goes on with epoch {}, silent up to impression "
        "offset {}",
        p, sent->epoch, sent->sequence, at.epoch, at.sequence, sent->epoch + 1,
        sent->furthest ? sent->furthest->second : -1);
  }
  return {};
}

}  // namespace sirenfeed::features
