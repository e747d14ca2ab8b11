#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "ingest/embedded_impl.h"

namespace sirenfeed::ingest::embedded {
namespace {

using base::ErrorCode;

class Reader final : public LogReader {
 public:
  Reader(EmbeddedLog::Impl& log, ReaderOptions options) : log_(log), options_(std::move(options)) {}
  ~Reader() override = default;
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  base::Result<void> assign(TopicPartition source, std::optional<Offset> offset) override {
    SF_ASSIGN(PartitionLog * log, log_.find(source));
    Input input;
    input.log = log;
    input.position = offset ? *offset : log->bounds().first;
    inputs_.insert_or_assign(source, std::move(input));
    return {};
  }
  base::Result<void> unassign(TopicPartition source) override {
    SF_TRY(find(source));
    inputs_.erase(source);
    return {};
  }
  base::Result<void> pause(TopicPartition source) override {
    SF_ASSIGN(Input * input, find(source));
    input->paused = true;
    return {};
  }
  base::Result<void> resume(TopicPartition source) override {
    SF_ASSIGN(Input * input, find(source));
    input->paused = false;
    return {};
  }
  base::Result<PollBatch> poll(std::chrono::milliseconds timeout) override;
  void report_position(TopicPartition, Offset) override {}  // there is no dashboard to report to

 private:
  struct Input {
    PartitionLog* log = nullptr;
    Offset position = 0;
    bool paused = false;
    bool failed = false;
    bool end_told = false;
    std::shared_ptr<Segment> segment;  // null: look for it
    std::optional<FrameReader> frames;
  };
  struct Budget {
    std::size_t records = 0;
    std::size_t bytes = 0;
  };

  base::Result<Input*> find(TopicPartition source);
  base::Result<PollBatch> collect();
  base::Result<void> read(TopicPartition source, Input& input, Budget budget, PollBatch& batch);
  /// False: at the end of the log.
  static base::Result<bool> enter_segment(Input& input);
  static base::Result<std::optional<Frame>> next_frame(Input& input);
  void tell_ends(PollBatch& batch);

  EmbeddedLog::Impl& log_;
  const ReaderOptions options_;
  std::map<TopicPartition, Input> inputs_;
  std::size_t turn_ = 0;  // which input goes first
  bool joined_ = false;
};

base::Result<Reader::Input*> Reader::find(TopicPartition source) {
  const auto found = inputs_.find(source);
  if (found == inputs_.end()) {
    return base::fail(ErrorCode::kNotFound, "{}/{} is not assigned to reader {}",
                      topic_name(source.topic), source.partition, options_.name);
  }
  return &found->second;
}

base::Result<PollBatch> Reader::poll(std::chrono::milliseconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  if (options_.group && !joined_) {
    joined_ = true;
    if (options_.listener.on_assigned) options_.listener.on_assigned(log_.all_partitions());
  }
  while (true) {
    const std::uint64_t seen = log_.commits();
    SF_ASSIGN(PollBatch batch, collect());
    if (!batch.records.empty() || !batch.at_end.empty() ||
        std::chrono::steady_clock::now() >= deadline) {
      return batch;
    }
    log_.wait_commit(seen, deadline);
  }
}

/// Every input gets an equal part of the batch, and the first in turn what the others left.
base::Result<PollBatch> Reader::collect() {
  PollBatch batch;
  const std::size_t n = std::max<std::size_t>(1, inputs_.size());
  const Budget share{std::max<std::size_t>(1, options_.poll_records_max / n),
                     options_.poll_bytes_max / n};
  auto it = inputs_.empty() ? inputs_.begin()
                            : std::next(inputs_.begin(), static_cast<std::ptrdiff_t>(turn_++ % n));
  for (std::size_t i = 0; i < inputs_.size(); ++i, ++it) {
    if (it == inputs_.end()) it = inputs_.begin();
    Input& input = it->second;
    if (input.paused || input.failed || batch.records.size() >= options_.poll_records_max) continue;
    if (auto done = read(it->first, input, share, batch); !done) {
      // Records that were collected go first; the error is met again by the next poll.
      if (!batch.records.empty()) break;
      input.failed = done.error().code == ErrorCode::kCorrupt;
      return base::fail(std::move(done).error());
    }
  }
  tell_ends(batch);
  return batch;
}

void Reader::tell_ends(PollBatch& batch) {
  for (auto& [source, input] : inputs_) {
    if (input.paused || input.failed) continue;
    const bool at_end = input.position == input.log->bounds().next;
    if (at_end && (!input.end_told || !batch.records.empty())) batch.at_end.push_back(source);
    input.end_told = at_end;
  }
}

base::Result<bool> Reader::enter_segment(Input& input) {
  SF_ASSIGN(const std::shared_ptr<Segment> segment, input.log->find(input.position));
  if (!segment) return false;
  SF_ASSIGN(const std::uint64_t position, segment->locate(input.position));
  SF_ASSIGN(input.frames, FrameReader::open(segment->path(), position));
  input.segment = segment;
  return true;
}

base::Result<std::optional<Frame>> Reader::next_frame(Input& input) {
  while (true) {
    if (!input.segment) {
      SF_ASSIGN(const bool entered, enter_segment(input));
      if (!entered) return std::nullopt;
    }
    if (input.position >= input.segment->next()) {  // done with it, or caught up
      SF_ASSIGN(const std::shared_ptr<Segment> segment, input.log->find(input.position));
      if (!segment) return std::nullopt;
      if (segment != input.segment) input.segment.reset();
      continue;
    }
    SF_ASSIGN(const auto frame, input.frames->peek(input.segment->bytes()));
    if (frame && frame->offset < input.position) {
      input.frames->advance(*frame);
      continue;
    }
    if (frame && frame->offset == input.position) return frame;
    return base::fail(ErrorCode::kCorrupt,
                      "{}: byte {}: expected the record of offset {}, found {}",
                      input.segment->path().string(), input.frames->position(), input.position,
                      frame ? fmt::format("offset {}", frame->offset) : "the end of the file");
  }
}

base::Result<void> Reader::read(TopicPartition source, Input& input, Budget budget,
                                PollBatch& batch) {
  const std::size_t records_before = batch.records.size();
  const std::size_t records_max =
      std::min(options_.poll_records_max, records_before + budget.records);
  std::size_t bytes = 0;
  while (batch.records.size() < records_max) {
    SF_ASSIGN(const auto frame, next_frame(input));
    if (!frame) return {};
    bytes += frame->bytes;
    if (bytes > budget.bytes && batch.records.size() > records_before) return {};
    LogRecord& record = batch.records.emplace_back();
    record.source = source;
    record.offset = frame->offset;
    record.log_time_ms = frame->log_time_ms;
    if (frame->key) record.key.emplace(*frame->key);
    if (frame->value) record.value.emplace(*frame->value);
    input.frames->advance(*frame);
    ++input.position;
  }
  return {};
}

}  // namespace

std::unique_ptr<LogReader> make_reader(EmbeddedLog::Impl& log, ReaderOptions options) {
  return std::make_unique<Reader>(log, std::move(options));
}

}  // namespace sirenfeed::ingest::embedded
