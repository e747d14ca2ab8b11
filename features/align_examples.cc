#include "features/align_examples.h"

#include <example.pb.h>

#include <algorithm>

#include "base/log.h"

namespace sirenfeed::features {
namespace {

constexpr std::chrono::milliseconds kPoll{200};
constexpr int kPollsMax = 50;
constexpr ingest::Offset kBackFactor = 16;

/// The end of an examples partition.
struct Newest {
  std::optional<Example> closed;  // the newest of revision 0; nullopt where retention took it
  std::uint64_t corrections = 0;  // that follow it
};

base::Result<void> note(const ingest::LogRecord& record, Newest& newest) {
  Example example;
  if (!record.value || !example.ParseFromString(*record.value)) {
    return base::fail(base::ErrorCode::kDecode, "{}/{} offset {}: expected an example",
                      ingest::topic_name(record.source.topic), record.source.partition,
                      record.offset);
  }
  if (example.revision() > 0) {
    ++newest.corrections;
  } else {
    newest = {std::move(example), 0};
  }
  return {};
}

// What lies from `from` to the end.
base::Result<Newest> read_from(ingest::EventLog& log, ingest::TopicPartition source,
                               ingest::Offset from) {
  SF_ASSIGN(
      const auto reader,
      log.open_reader({.name = "sirenfeed-align", .group = {}, .member = {}, .listener = {}}));
  SF_TRY(reader->assign(source, from));
  Newest newest;
  for (int quiet = 0; quiet < kPollsMax; ++quiet) {
    SF_ASSIGN(const ingest::PollBatch batch, reader->poll(kPoll));
    for (const ingest::LogRecord& record : batch.records) SF_TRY(note(record, newest));
    if (!batch.records.empty()) quiet = 0;
    if (!batch.at_end.empty()) return newest;
  }
  return base::fail(
      base::ErrorCode::kUnavailable, "the newest records of {}/{} did not come within {} s",
      ingest::topic_name(source.topic), source.partition, kPollsMax * kPoll.count() / 1000);
}

// Corrections stand between the closed impressions: further back until one of those is there.
base::Result<Newest> read_newest(ingest::EventLog& log, ingest::TopicPartition source,
                                 ingest::EventLog::Bounds bounds) {
  for (ingest::Offset back = 1;; back *= kBackFactor) {
    const ingest::Offset from = std::max(bounds.first, bounds.next - back);
    SF_ASSIGN(Newest newest, read_from(log, source, from));
    if (newest.closed || from == bounds.first) return newest;
  }
}

}  // namespace

base::Result<void> align_examples(FeatureState& state, ingest::EventLog& log) {
  for (ingest::Partition p = 0; p < state.config().partitions; ++p) {
    const ingest::TopicPartition source{ingest::Topic::kExamples, p};
    SF_ASSIGN(const auto applied, state.position({ingest::Topic::kImpressions, p}));
    if (applied) continue;
    SF_ASSIGN(const auto bounds, log.bounds(source));
    if (bounds.next <= bounds.first) continue;
    SF_ASSIGN(const Newest newest, read_newest(log, source, bounds));
    if (!newest.closed) continue;
    const Example& closed = *newest.closed;
    SF_ASSIGN(const bool resumed, state.resume_examples(p, closed, newest.corrections));
    if (!resumed) continue;
    base::log_warning(
        "the state of partition {} is empty, but examples/{} holds examples of epoch {}: starting "
        "epoch {}, silent up to impression offset {}",
        p, p, closed.epoch(), closed.epoch() + 1, closed.impression_offset());
  }
  return {};
}

}  // namespace sirenfeed::features
