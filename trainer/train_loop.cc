#include "trainer/train_loop.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <deque>
#include <set>
#include <thread>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "base/mutex.h"
#include "model/model_store.h"
#include "trainer/background_task.h"
#include "trainer/dead_letter_sender.h"
#include "trainer/example_order.h"
#include "trainer/model_publisher.h"
#include "trainer/online_trainer.h"

namespace sirenfeed::trainer {

namespace {

using base::ErrorCode;
using base::fail;
using ingest::Topic;

// Errors that may go away by themselves.
bool is_passing(const base::Error& error) {
  return error.code == ErrorCode::kUnavailable || error.code == ErrorCode::kStorage ||
         error.code == ErrorCode::kClosed || error.code == ErrorCode::kNotFound;
}

}  // namespace

const char* train_state_name(TrainState state) noexcept {
  switch (state) {
    case TrainState::kStopped:
      return "stopped";
    case TrainState::kCatchingUp:
      return "catching_up";
    case TrainState::kLive:
      return "live";
    case TrainState::kDegraded:
      return "degraded";
    case TrainState::kFinished:
      return "finished";
    case TrainState::kFailed:
      return "failed";
  }
  return "unknown";
}

struct TrainLoop::Impl {
  Impl(const TrainLoopConfig& c, const TrainLoopDeps& d, std::unique_ptr<OnlineTrainer> t)
      : config(c),
        deps(d),
        trainer(std::move(t)),
        decoder(schema_of(trainer->model().config)),
        dead_letters(d.log),
        publisher(d.store, d.probe, d.clock) {}

  /// One partition as it is read; `positions` is how far it was learned.
  struct Cursor {
    explicit Cursor(std::optional<PartitionPosition> last)
        : order(last), next_offset(last ? std::optional(last->next_offset) : std::nullopt) {}
    ExampleOrder order;
    std::optional<ingest::Offset> next_offset;
    std::string stopped;  // why it is not read any more
  };
  struct Accepted {
    DecodedExample example;
    ingest::Partition partition = 0;  // where it was read
    ingest::Offset next_offset = 0;
    base::UnixMs arrived_ms = 0;
  };
  struct CheckpointJob {
    Checkpoint checkpoint;
    std::uint64_t examples = 0;
  };

  const TrainLoopConfig config;
  TrainLoopDeps deps;
  std::unique_ptr<OnlineTrainer> trainer;
  ExampleDecoder decoder;
  DeadLetterSender dead_letters;
  Positions positions;
  base::UnixMs recorded_until_ms = Learned::kNothingRecorded;
  std::map<ingest::Partition, Cursor> cursors;
  std::set<ingest::Partition> at_end;
  std::deque<Accepted> accepted;  // not learned yet
  std::vector<const DecodedExample*> batch;
  std::unique_ptr<ingest::LogReader> reader;

  base::SteadyTime last_record{};
  base::SteadyTime last_publish{};
  base::SteadyTime last_checkpoint{};
  std::uint64_t checkpointed_examples = 0;  // examples in the newest checkpoint
  base::UnixMs newest_closed_ms = 0;        // of the learned examples
  bool caught_up = false;
  // The newest failure of each kind while it lasts; empty after a success.
  std::string log_error;
  std::string publish_error;
  std::string full_error;
  std::string checkpoint_error;

  std::optional<CheckpointJob> checkpoint_job;  // the checkpointer's while it runs

  std::atomic<bool> stop_asked{false};
  std::jthread thread;
  mutable base::Mutex mutex;
  std::condition_variable ended_changed;
  TrainStatus status SF_GUARDED_BY(mutex);
  std::optional<base::Result<void>> ended SF_GUARDED_BY(mutex);

  // Beside the training thread; one job of each kind at a time. Last: their jobs use the others.
  ModelPublisher publisher;
  BackgroundTask checkpointer;

  base::Result<void> run_to_end();
  base::Result<void> open_session();
  base::Result<void> poll_once();
  base::Result<void> take_record(ingest::LogRecord record, base::UnixMs arrived_ms);
  void reject(const ingest::LogRecord& record, Cursor& cursor, const std::string& detail);
  base::Result<void> stop_partition(ingest::Partition partition, Cursor& cursor,
                                    std::string reason);
  base::Result<ingest::PollBatch> poll();
  void learn(std::size_t count);
  void after_batch();
  bool publish_due() const;
  bool checkpoint_due() const;
  void start_publishing();
  base::Result<void> publish_now();
  base::Result<void> start_checkpoint();
  base::Result<void> end_checkpoint(const base::Result<void>& result);
  void take_results();
  base::Result<void> finish();
  [[nodiscard]] bool everything_read() const;
  [[nodiscard]] std::string stopped_reasons() const;
  void set_state(TrainState state, const std::string& error);
  void note(std::string& error, const char* what, const base::Result<void>& result);
  [[nodiscard]] std::string current_error() const;
  void wait_before_retry() const;
};

void TrainLoop::Impl::set_state(TrainState state, const std::string& error) {
  base::MutexLock lock(mutex);
  status.state = state;
  status.last_error = error;
  status.caught_up = caught_up;
  status.examples = trainer->examples();
  status.batches = trainer->batches();
  status.published_version = deps.store.last_version();
  status.progressive = publisher.figures();
  status.stopped.clear();
  for (const auto& [partition, cursor] : cursors) {
    if (!cursor.stopped.empty()) status.stopped.push_back({partition, cursor.stopped});
  }
}

// Logs a failure once, not at every retry.
void TrainLoop::Impl::note(std::string& error, const char* what, const base::Result<void>& result) {
  if (result) {
    if (!error.empty()) base::log_info("{}: works again", what);
    error.clear();
    return;
  }
  std::string now = fmt::format("{}: {}", what, result.error().message);
  if (now != error) base::log_error("{}; trying again", now);
  error = std::move(now);
}

std::string TrainLoop::Impl::current_error() const {
  for (const std::string* error : {&log_error, &publish_error, &full_error, &checkpoint_error}) {
    if (!error->empty()) return *error;
  }
  return stopped_reasons();
}

void TrainLoop::Impl::wait_before_retry() const {
  const auto until = std::chrono::steady_clock::now() + config.retry_interval;
  while (!stop_asked && std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(std::min(config.retry_interval, std::chrono::milliseconds{10}));
  }
}

base::Result<void> TrainLoop::Impl::open_session() {
  reader.reset();
  at_end.clear();
  SF_ASSIGN(const ingest::Partition partitions, deps.log.partitions(Topic::kExamples));
  ingest::ReaderOptions options;
  options.name = "trainer";
  SF_ASSIGN(reader, deps.log.open_reader(std::move(options)));
  for (ingest::Partition p = 0; p < partitions; ++p) {
    const auto known = positions.find(p);
    const auto [cursor, made] = cursors.try_emplace(
        p, known == positions.end() ? std::nullopt : std::optional(known->second));
    if (!cursor->second.stopped.empty()) continue;
    SF_TRY(reader->assign({Topic::kExamples, p}, cursor->second.next_offset));
  }
  if (!positions.empty() && positions.rbegin()->first >= partitions) {
    return fail(ErrorCode::kCorrupt,
                "topic examples has {} partitions, the checkpoint knows partition {}", partitions,
                positions.rbegin()->first);
  }
  return {};
}

void TrainLoop::Impl::reject(const ingest::LogRecord& record, Cursor& cursor,
                             const std::string& detail) {
  base::log_warning("examples/{} offset {}: {}: a dead letter", record.source.partition,
                    record.offset, detail);
  dead_letters.add(record, detail);
  cursor.order.note_undecodable();
  deps.probe.undecodable.add();
}

base::Result<void> TrainLoop::Impl::stop_partition(ingest::Partition partition, Cursor& cursor,
                                                   std::string reason) {
  base::log_error("examples/{} is not read any more: {}", partition, reason);
  cursor.stopped = std::move(reason);
  deps.probe.gaps.add();
  return reader->unassign({Topic::kExamples, partition});
}

base::Result<void> TrainLoop::Impl::take_record(ingest::LogRecord record, base::UnixMs arrived_ms) {
  const ingest::Partition partition = record.source.partition;
  const auto found = cursors.find(partition);
  SF_CHECK(found != cursors.end());
  Cursor& cursor = found->second;
  if (!cursor.stopped.empty()) return {};
  at_end.erase(partition);
  if (!record.value) {
    reject(record, cursor, "a null value is no example");
  } else {
    auto decoded = decoder.decode_bytes(*record.value);
    if (decoded && decoded->partition != partition) {
      decoded = fail(ErrorCode::kDecode, "the example says that it is of partition {}",
                     decoded->partition);
    }
    if (!decoded && decoded.error().code != ErrorCode::kDecode) {
      return fail(decoded.error().code, "examples/{} offset {}: {}", partition, record.offset,
                  decoded.error().message);
    }
    if (!decoded) {
      reject(record, cursor, decoded.error().message);
    } else if (!cursor.order.begun() && decoded->slate.time_ms <= recorded_until_ms) {
      deps.probe.recorded_before.add();
    } else {
      std::string reason;
      switch (cursor.order.check(decoded->epoch, decoded->sequence, reason)) {
        case ExampleOrder::Verdict::kAccept:
          if (decoded->erased) {
            deps.probe.erased.add();
            break;
          }
          accepted.push_back({*std::move(decoded), partition, record.offset + 1, arrived_ms});
          break;
        case ExampleOrder::Verdict::kDuplicate:
          deps.probe.duplicates.add();
          break;
        case ExampleOrder::Verdict::kStop:
          return stop_partition(partition, cursor,
                                fmt::format("offset {}: {}", record.offset, reason));
      }
    }
  }
  cursor.next_offset = record.offset + 1;
  return {};
}

void TrainLoop::Impl::learn(std::size_t count) {
  batch.clear();
  for (std::size_t i = 0; i < count; ++i) batch.push_back(&accepted[i].example);
  const auto begin = std::chrono::steady_clock::now();
  const StepReport report = trainer->learn(batch);
  deps.probe.step_seconds.observe(
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  if (report.learned) {
    deps.probe.batches.add();
    deps.probe.examples.add(count);
    deps.probe.loss.set(report.loss);
    deps.probe.gradient_norm.set(report.gradient_norm);
    deps.probe.add_removed(report);
  } else {
    deps.probe.batches_skipped.add();
  }
  for (std::size_t i = 0; i < count; ++i) {
    const DecodedExample& example = accepted[i].example;
    if (example.labels.correction && report.learned) deps.probe.corrections.add();
    newest_closed_ms = std::max(newest_closed_ms, example.closed_ms);
    if (report.learned) publisher.note_learned(accepted[i].arrived_ms);
    // A skipped batch is passed as well: it would fail again.
    positions[accepted[i].partition] = {accepted[i].next_offset, example.epoch, example.sequence};
  }
  accepted.erase(accepted.begin(), accepted.begin() + static_cast<std::ptrdiff_t>(count));
}

bool TrainLoop::Impl::publish_due() const {
  const std::uint64_t examples = trainer->examples();
  const std::uint64_t published_examples = publisher.published_examples();
  if (examples == published_examples) return false;
  if (config.publish_examples > 0) {
    return examples / config.publish_examples > published_examples / config.publish_examples;
  }
  return deps.steady.now() - last_publish >= config.publish_interval;
}

bool TrainLoop::Impl::checkpoint_due() const {
  const std::uint64_t examples = trainer->examples();
  if (config.checkpoint_file.empty() || examples == checkpointed_examples) return false;
  if (config.checkpoint_examples > 0) {
    return examples / config.checkpoint_examples >
           checkpointed_examples / config.checkpoint_examples;
  }
  return deps.steady.now() - last_checkpoint >= config.checkpoint_interval;
}

void TrainLoop::Impl::start_publishing() {
  last_publish = deps.steady.now();
  publisher.start(*trainer, newest_closed_ms);
}

/// Waits for a version in work, then publishes the model as it is, if it is newer.
base::Result<void> TrainLoop::Impl::publish_now() {
  publisher.wait();
  take_results();
  if (trainer->examples() == publisher.published_examples()) return {};
  start_publishing();
  publisher.wait();
  return *publisher.take_result();
}

base::Result<void> TrainLoop::Impl::start_checkpoint() {
  last_checkpoint = deps.steady.now();
  SF_TRY(dead_letters.send());  // a checkpoint passes over what they stand for
  checkpoint_job =
      CheckpointJob{take_checkpoint(*trainer, {positions, recorded_until_ms}), trainer->examples()};
  checkpointer.start(
      [this] { return write_checkpoint(config.checkpoint_file, checkpoint_job->checkpoint); });
  return {};
}

base::Result<void> TrainLoop::Impl::end_checkpoint(const base::Result<void>& result) {
  const CheckpointJob done = *std::exchange(checkpoint_job, std::nullopt);
  if (!result) {
    deps.probe.checkpoint_errors.add();
    return result;
  }
  deps.probe.checkpoints.add();
  checkpointed_examples = done.examples;
  for (const auto& [partition, position] : done.checkpoint.learned.positions) {
    if (reader) reader->report_position({Topic::kExamples, partition}, position.next_offset);
  }
  return {};
}

void TrainLoop::Impl::take_results() {
  if (const auto result = publisher.take_result()) {
    note(publish_error, "publishing a model", *result);
  }
  if (const auto result = publisher.take_full_result()) {
    note(full_error, "writing a full model file", *result);
  }
  if (const auto result = checkpointer.take_result()) {
    note(checkpoint_error, "writing the checkpoint", end_checkpoint(*result));
  }
}

// While a version or a checkpoint is in work the next one waits, and then takes the newest state;
// with counted ones learning waits, so that none is left out. A failure is visible and tried again
// at the next batch or interval: learning goes on.
void TrainLoop::Impl::after_batch() {
  take_results();
  if (publish_due()) {
    if (config.publish_examples > 0) publisher.wait();
    take_results();
    if (publisher.idle() && publish_due()) start_publishing();
  }
  if (checkpoint_due()) {
    if (config.checkpoint_examples > 0) checkpointer.wait();
    take_results();
    if (checkpointer.idle() && checkpoint_due()) {
      if (const auto started = start_checkpoint(); !started) {
        note(checkpoint_error, "writing the checkpoint", started);
      }
    }
  }
}

bool TrainLoop::Impl::everything_read() const {
  return std::all_of(cursors.begin(), cursors.end(), [this](const auto& entry) {
    return !entry.second.stopped.empty() || at_end.contains(entry.first);
  });
}

// What concerns one partition (its offset is not in the log, the log is damaged there) stops that
// one alone.
base::Result<ingest::PollBatch> TrainLoop::Impl::poll() {
  auto polled = reader->poll(config.poll_timeout);
  if (polled || polled.error().code != ErrorCode::kCorrupt) return polled;
  for (auto& [partition, cursor] : cursors) {
    if (!cursor.stopped.empty()) continue;
    if (!ingest::names(polled.error().message, {Topic::kExamples, partition})) continue;
    SF_TRY(stop_partition(partition, cursor, polled.error().message));
    return ingest::PollBatch{};
  }
  return polled;
}

base::Result<void> TrainLoop::Impl::poll_once() {
  SF_TRY(dead_letters.send());
  SF_ASSIGN(ingest::PollBatch polled, poll());
  const base::UnixMs arrived_ms = deps.clock.now_ms();
  deps.probe.broker_lost.set(polled.broker_lost ? 1 : 0);
  const std::size_t batch_examples = config.step.batch_examples;
  if (!polled.records.empty()) last_record = deps.steady.now();
  for (ingest::LogRecord& record : polled.records) {
    SF_TRY(take_record(std::move(record), arrived_ms));
    if (accepted.size() < batch_examples) continue;
    learn(batch_examples);
    after_batch();
    if (stop_asked) return {};
  }
  SF_TRY(dead_letters.send());
  for (const ingest::TopicPartition& source : polled.at_end) at_end.insert(source.partition);
  if (config.batch_linger && !accepted.empty() &&
      deps.steady.now() - last_record >= *config.batch_linger) {
    learn(accepted.size());
  }
  after_batch();
  if (everything_read()) caught_up = true;
  note(log_error, "topic examples",
       polled.broker_lost ? fail(ErrorCode::kUnavailable, "no broker answers")
                          : base::Result<void>{});
  const std::string error = current_error();
  const TrainState healthy = everything_read() ? TrainState::kLive : TrainState::kCatchingUp;
  set_state(error.empty() ? healthy : TrainState::kDegraded, error);
  return {};
}

std::string TrainLoop::Impl::stopped_reasons() const {
  std::string reasons;
  for (const auto& [partition, cursor] : cursors) {
    if (cursor.stopped.empty()) continue;
    reasons +=
        fmt::format("{}examples/{}: {}", reasons.empty() ? "" : "; ", partition, cursor.stopped);
  }
  return reasons;
}

// Publishes and checkpoints what was learned since; the examples of an incomplete batch are read
// again after the restart, unless the log's end was asked for.
base::Result<void> TrainLoop::Impl::finish() {
  SF_TRY(publish_now());
  checkpointer.wait();
  publisher.wait_for_full();
  take_results();
  if (config.checkpoint_file.empty()) return {};
  SF_TRY(start_checkpoint());
  checkpointer.wait();
  return end_checkpoint(*checkpointer.take_result());
}

base::Result<void> TrainLoop::Impl::run_to_end() {
  last_record = last_publish = last_checkpoint = deps.steady.now();
  checkpointed_examples = trainer->examples();
  publisher.set_published_examples(checkpointed_examples);
  set_state(TrainState::kCatchingUp, "");
  // Serving has something to load from the first moment on; and a checkpoint may hold more than was
  // published before a crash.
  if (deps.store.last_version() == 0 || trainer->examples() > 0) {
    start_publishing();
  }
  while (!stop_asked) {
    base::Result<void> done;
    if (!reader) done = open_session();
    if (done) done = poll_once();
    if (!done) {
      if (!is_passing(done.error())) return done;
      deps.probe.log_errors.add();
      note(log_error, "topic examples", done);
      set_state(TrainState::kDegraded, current_error());
      reader.reset();
      wait_before_retry();
      continue;
    }
    const std::string stopped = stopped_reasons();
    if (!stopped.empty() && everything_read() && (config.until_end || at_end.empty())) {
      // The incomplete batch is left: once the log is repaired it is cut as if nothing was missing.
      return fail(ErrorCode::kCorrupt, "{}", stopped);
    }
    if (config.until_end && everything_read()) {
      if (!accepted.empty()) learn(accepted.size());
      SF_TRY(finish());
      set_state(TrainState::kFinished, "");
      return {};
    }
  }
  SF_TRY(finish());
  set_state(TrainState::kStopped, "");
  return {};
}

base::Result<std::unique_ptr<TrainLoop>> TrainLoop::create(const TrainLoopConfig& config,
                                                           const model::Model& start,
                                                           const TrainLoopDeps& deps) {
  SF_TRY(config.validate());
  SF_ASSIGN(auto trainer, OnlineTrainer::create(start, config.step));
  Learned learned;
  if (!config.checkpoint_file.empty()) {
    auto restored = read_checkpoint(config.checkpoint_file, *trainer);
    if (!restored) {
      deps.probe.checkpoints_refused.add();
      return base::fail(std::move(restored).error());
    }
    if (*restored) {
      learned = **std::move(restored);
      base::log_info("{}: {} examples learned so far", config.checkpoint_file, trainer->examples());
    }
  }
  auto impl = std::make_unique<Impl>(config, deps, std::move(trainer));
  impl->positions = std::move(learned.positions);
  impl->recorded_until_ms = learned.recorded_until_ms;
  return std::unique_ptr<TrainLoop>(new TrainLoop(std::move(impl)));
}

TrainLoop::TrainLoop(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
TrainLoop::~TrainLoop() { stop(); }

base::Result<void> TrainLoop::run() {
  auto result = impl_->run_to_end();
  impl_->reader.reset();
  if (!result) {
    base::log_error("the trainer has stopped: {}", result.error().message);
    // What was learned is good; only reading on is not.
    if (const auto saved = impl_->finish(); !saved) {
      base::log_error("cannot save what was learned: {}", saved.error().message);
    }
    impl_->set_state(TrainState::kFailed, result.error().message);
  }
  {
    base::MutexLock lock(impl_->mutex);
    impl_->ended = result;
  }
  impl_->ended_changed.notify_all();
  return result;
}

void TrainLoop::start() {
  if (impl_->thread.joinable() || impl_->stop_asked) return;
  impl_->thread = std::jthread([this] { (void)run(); });
}

void TrainLoop::stop() {
  impl_->stop_asked = true;
  if (impl_->thread.joinable()) impl_->thread.join();
}

base::Result<void> TrainLoop::wait() {
  SF_CHECK(impl_->thread.joinable());
  base::MutexLock lock(impl_->mutex);
  while (!impl_->ended) lock.wait(impl_->ended_changed);
  return *impl_->ended;
}

TrainStatus TrainLoop::status() const {
  base::MutexLock lock(impl_->mutex);
  return impl_->status;
}

const model::Model& TrainLoop::model() const { return impl_->trainer->model(); }
Positions TrainLoop::positions() const { return impl_->positions; }

}  // namespace sirenfeed::trainer
