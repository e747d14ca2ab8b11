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
  void confirm_ends() override {
    for (auto& [source, input] : inputs_) input.end_told = false;
  }
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
  base::Result<void> read_round(Budget share, Budget& left, PollBatch& batch);
  /// Returns what it used of `budget`; a first record may be larger.
  base::Result<Budget> read(TopicPartition source, Input& input, Budget budget, PollBatch& batch);
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

/// Every input gets an equal part of the batch; what some leave of it the others get, in turn.
base::Result<PollBatch> Reader::collect() {
  PollBatch batch;
  const std::size_t n = std::max<std::size_t>(1, inputs_.size());
  Budget left{options_.poll_records_max, options_.poll_bytes_max};
  SF_TRY(read_round({std::max<std::size_t>(1, left.records / n), left.bytes / n}, left, batch));
  if (!batch.records.empty() && left.records > 0 && left.bytes > 0) {
    SF_TRY(read_round(left, left, batch));
  }
  tell_ends(batch);
  return batch;
}

/// Takes what it reads off `left`, at most `share` for each input.
base::Result<void> Reader::read_round(Budget share, Budget& left, PollBatch& batch) {
  const std::size_t n = std::max<std::size_t>(1, inputs_.size());
  auto it = inputs_.empty() ? inputs_.begin()
                            : std::next(inputs_.begin(), static_cast<std::ptrdiff_t>(turn_++ % n));
  for (std::size_t i = 0; i < inputs_.size(); ++i, ++it) {
    if (it == inputs_.end()) it = inputs_.begin();
    Input& input = it->second;
    if (input.paused || input.failed || left.records == 0) continue;
    const Budget budget{std::min(share.records, left.records), std::min(share.bytes, left.bytes)};
    const auto used = read(it->first, input, budget, batch);
    if (!used) {
      // Records that were collected go first; the error is met again by the next poll.
      if (!batch.records.empty()) return {};
      input.failed = used.error().code == ErrorCode::kCorrupt;
      return base::fail(used.error());
    }
    left.records -= used->records;
    left.bytes -= std::min(left.bytes, used->bytes);
  }
  return {};
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

base::Result<Reader::Budget> Reader::read(TopicPartition source, Input& input, Budget budget,
                                          PollBatch& batch) {
  Budget used;
  while (used.records < budget.records) {
    auto frame = next_frame(input);
    if (!frame && used.records == 0) return base::fail(std::move(frame).error());
    if (!frame || !*frame) return used;  // the end, or an error that the next call meets again
    const std::size_t bytes = (*frame)->bytes;
    if (used.bytes + bytes > budget.bytes && !batch.records.empty()) return used;
    used.bytes += bytes;
    ++used.records;
    LogRecord& record = batch.records.emplace_back();
    record.source = source;
    record.offset = (*frame)->offset;
    record.log_time_ms = (*frame)->log_time_ms;
    if ((*frame)->key) record.key.emplace(*(*frame)->key);
    if ((*frame)->value) record.value.emplace(*(*frame)->value);
    input.frames->advance(**frame);
    ++input.position;
  }
  return used;
}

}  // namespace

std::unique_ptr<LogReader> make_reader(EmbeddedLog::Impl& log, ReaderOptions options) {
  return std::make_unique<Reader>(log, std::move(options));
}

}  // namespace sirenfeed::ingest::embedded
