#include "ingest/replay_log_reader.h"

#include <algorithm>
#include <utility>

namespace sirenfeed::ingest {
namespace {

using base::ErrorCode;

constexpr std::size_t kTopics = static_cast<std::size_t>(Topic::kDeadLetters) + 1;

bool contains(const std::vector<TopicPartition>& list, TopicPartition source) {
  return std::find(list.begin(), list.end(), source) != list.end();
}

}  // namespace

ReplayLogReader::ReplayLogReader(ReplayReader& replay, ReplayLogConfig config)
    : replay_(replay), config_(config), next_offsets_(kTopics, 0) {}

base::Result<void> ReplayLogReader::assign(TopicPartition source, std::optional<Offset> offset) {
  if (source.partition != 0) {
    return base::fail(ErrorCode::kNotFound, "{}/{} does not exist: a replay has one partition",
                      topic_name(source.topic), source.partition);
  }
  if (offset.value_or(0) != next_offsets_[static_cast<std::size_t>(source.topic)]) {
    return base::fail(ErrorCode::kInvalidArgument,
                      "{}/0: a replay begins at its beginning, not at offset {}: use a new state",
                      topic_name(source.topic), offset.value_or(0));
  }
  if (!contains(assigned_, source)) assigned_.push_back(source);
  return {};
}

base::Result<void> ReplayLogReader::unassign(TopicPartition source) {
  if (std::erase(assigned_, source) > 0) return {};
  return base::fail(ErrorCode::kNotFound, "{}/{} is not assigned", topic_name(source.topic),
                    source.partition);
}

base::Result<void> ReplayLogReader::pause(TopicPartition source) {
  if (!contains(paused_, source)) paused_.push_back(source);
  return {};
}

base::Result<void> ReplayLogReader::resume(TopicPartition source) {
  std::erase(paused_, source);
  return {};
}

base::Result<PollBatch> ReplayLogReader::poll(std::chrono::milliseconds /*timeout*/) {
  PollBatch batch;
  if (!paused_.empty()) return batch;
  std::optional<TopicPartition> last;
  batch.records.reserve(config_.poll_records_max);
  while (!ended_ && batch.records.size() < config_.poll_records_max) {
    SF_ASSIGN(auto record, replay_.next());
    if (!record) {
      ended_ = true;
      break;
    }
    LogRecord out;
    out.source = {record->topic, 0};
    out.offset = next_offsets_[static_cast<std::size_t>(record->topic)]++;
    out.log_time_ms = record->time_ms;
    out.key = std::move(record->key);
    out.value = std::move(record->value);
    if (!contains(assigned_, out.source)) continue;
    last = out.source;
    batch.records.push_back(std::move(out));
  }
  for (const TopicPartition source : assigned_) {
    if (ended_ || (last && source != *last)) batch.at_end.push_back(source);
  }
  return batch;
}

ReplayLog::ReplayLog(std::unique_ptr<ReplayReader> replay, ReplayLogConfig config)
    : replay_(std::move(replay)), config_(config) {}

base::Result<Partition> ReplayLog::partitions(Topic /*topic*/) { return 1; }

base::Result<EventLog::Bounds> ReplayLog::bounds(TopicPartition source) {
  return base::fail(ErrorCode::kUnavailable, "{}: a replay knows its end when it is there",
                    topic_name(source.topic));
}

base::Result<std::unique_ptr<LogReader>> ReplayLog::open_reader(ReaderOptions /*options*/) {
  if (std::exchange(opened_, true)) {
    return base::fail(ErrorCode::kInvalidArgument, "a replay can be read once only");
  }
  return std::make_unique<ReplayLogReader>(*replay_, config_);
}

base::Result<std::unique_ptr<LogWriter>> ReplayLog::open_writer(std::string name) {
  return base::fail(ErrorCode::kInvalidArgument, "{}: a replay cannot be written to", name);
}

}  // namespace sirenfeed::ingest
