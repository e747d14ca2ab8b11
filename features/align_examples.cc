#include "features/align_examples.h"

#include <example.pb.h>

#include "base/log.h"

namespace sirenfeed::features {
namespace {

constexpr std::chrono::milliseconds kPoll{200};
constexpr int kPollsMax = 50;

// The last record before `next`; nullopt when retention has taken it.
base::Result<std::optional<std::string>> read_last(ingest::EventLog& log,
                                                   ingest::TopicPartition source,
                                                   ingest::EventLog::Bounds bounds) {
  SF_ASSIGN(
      const auto reader,
      log.open_reader({.name = "sirenfeed-align", .group = {}, .member = {}, .listener = {}}));
  SF_TRY(reader->assign(source, bounds.next - 1));
  for (int poll = 0; poll < kPollsMax; ++poll) {
    SF_ASSIGN(ingest::PollBatch batch, reader->poll(kPoll));
    if (!batch.records.empty()) return std::move(batch.records.back().value);
    if (!batch.at_end.empty()) return std::optional<std::string>();
  }
  return base::fail(
      base::ErrorCode::kUnavailable, "the newest record of {}/{} did not come within {} s",
      ingest::topic_name(source.topic), source.partition, kPollsMax * kPoll.count() / 1000);
}

}  // namespace

base::Result<void> align_examples(FeatureState& state, ingest::EventLog& log) {
  for (ingest::Partition p = 0; p < state.config().partitions; ++p) {
    const ingest::TopicPartition source{ingest::Topic::kExamples, p};
    SF_ASSIGN(const auto applied, state.position({ingest::Topic::kImpressions, p}));
    if (applied) continue;
    SF_ASSIGN(const auto bounds, log.bounds(source));
    if (bounds.next <= bounds.first) continue;
    SF_ASSIGN(const auto value, read_last(log, source, bounds));
    if (!value) continue;
    Example newest;
    if (!newest.ParseFromString(*value)) {
      return base::fail(base::ErrorCode::kDecode, "examples/{} offset {}: expected an example", p,
                        bounds.next - 1);
    }
    SF_ASSIGN(const bool resumed, state.resume_examples(p, newest));
    if (!resumed) continue;
    base::log_warning(
        "the state of partition {} is empty, but examples/{} holds examples of epoch {}: starting "
        "epoch {}, silent up to impression offset {}",
        p, p, newest.epoch(), newest.epoch() + 1, newest.impression_offset());
  }
  return {};
}

}  // namespace sirenfeed::features
