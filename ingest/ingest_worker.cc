#include "ingest/ingest_worker.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "base/log.h"

namespace sirenfeed::ingest {
namespace {

using base::ErrorCode;
using std::chrono::milliseconds;

constexpr milliseconds kLogAgainAfter{30'000};
/// A log may end with records that are never delivered (Kafka's transaction markers), so an input
/// that stays at its end for this long counts as read.
constexpr milliseconds kQuietEnd{1'000};

milliseconds until(base::SteadyTime time, base::SteadyTime now) {
  // Rounded up: waking just before the time would spin until it has come.
  return std::chrono::ceil<milliseconds>(std::max(time - now, base::SteadyTime::duration::zero()));
}

}  // namespace

void IngestWorker::Backoff::failed(base::SteadyTime now, std::string_view what,
                                   const base::Error& error) {
  pause_ =
      pause_.count() == 0 ? config_.retry_wait_min : std::min(2 * pause_, config_.retry_wait_max);
  until_ = now + pause_;
  if (!error_ || error_->message != error.message || now - *logged_at_ >= kLogAgainAfter) {
    base::log_error("{} failed ({}), trying again: {}", what, error_code_name(error.code),
                    error.message);
    logged_at_ = now;
  }
  error_ = error;
}

void IngestWorker::Backoff::succeeded(std::string_view what) {
  if (!error_) return;
  base::log_info("{} works again", what);
  error_.reset();
  until_.reset();
  logged_at_.reset();
  pause_ = milliseconds(0);
}

IngestWorker::IngestWorker(const IngestConfig& config, const IngestLoop::Parts& parts,
                           MergeConfig merge, bool use_group)
    : config_(config),
      parts_(parts),
      parser_(config.parser, parts.clock),
      merge_(merge, parts.steady),
      sink_backoff_(config),
      input_backoff_(config),
      inputs_(config, {parts.log, parts.sink, parser_, merge_, parts.steady, parts.probe},
              use_group) {}

IngestWorker::~IngestWorker() = default;

void IngestWorker::run(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    step(stop);
    publish_state(true);
  }
  std::vector<Done> unserved;
  {
    base::MutexLock lock(mutex_);
    ended_ = true;
    unserved.swap(posted_);
  }
  for (Close& close : closes_) unserved.push_back(std::move(close.done));
  closes_.clear();
  for (Done& done : unserved) {
    done.set_value(base::fail(ErrorCode::kClosed, "ingest stopped before the windows were closed"));
  }
  publish_state(false);
}

void IngestWorker::step(const std::stop_token& stop) {
  if (input_backoff_.due(parts_.steady.now())) {
    const auto input = read_next();
    if (input) {
      input_backoff_.succeeded("reading the log");
    } else {
      input_backoff_.failed(parts_.steady.now(), "reading the log", input.error());
    }
  } else {
    std::this_thread::sleep_for(config_.poll_wait);
  }
  if (stop.stop_requested()) return;
  inputs_.check_partitions(partitions_seen_);
  drop_foreign_records();
  if (sink_backoff_.due(parts_.steady.now())) {
    const auto applied = apply_next();
    if (!applied) {
      parts_.probe.apply_failed();
      sink_backoff_.failed(parts_.steady.now(), "applying a batch to the state", applied.error());
    }
  }
  flush_idle();
  serve_closes();
}

base::Result<void> IngestWorker::read_next() {
  if (!inputs_.opened()) return inputs_.open();
  SF_TRY(inputs_.poll(poll_time()));
  return inputs_.regulate();
}

milliseconds IngestWorker::poll_time() const {
  const base::SteadyTime now = parts_.steady.now();
  if (!batch_.empty()) {  // its retry is due at some time
    const auto& retry = sink_backoff_.until();
    return std::min(config_.poll_wait, retry ? until(*retry, now) : milliseconds(0));
  }
  if (more_) return milliseconds(0);
  const auto deadline = merge_.next_deadline();
  return deadline ? std::min(config_.poll_wait, until(*deadline, now)) : config_.poll_wait;
}

base::Result<void> IngestWorker::apply_next() {
  if (batch_.empty()) {
    const std::size_t taken =
        merge_.take(config_.batch_records_max, config_.batch_bytes_max, batch_);
    more_ = taken > 0 && !merge_.empty();
  }
  const std::uint64_t out_of_order = merge_.out_of_order();
  parts_.probe.out_of_order(out_of_order - std::exchange(out_of_order_, out_of_order));
  parts_.probe.buffered(merge_.buffered_records() + batch_.size(), merge_.buffered_bytes());
  if (batch_.empty()) return {};
  const auto begin = std::chrono::steady_clock::now();
  SF_TRY(parts_.sink.apply(batch_));
  parts_.probe.batch_applied(
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  sink_backoff_.succeeded("applying to the state");
  records_applied_ += batch_.size();
  ++batches_applied_;
  inputs_.applied(batch_);
  batch_.clear();
  return {};
}

/// What belongs to partitions that were taken away or stopped while their batch waited: the state
/// has not seen it, and whoever reads the partition next will bring it again.
void IngestWorker::drop_foreign_records() {
  std::erase_if(batch_, [this](const InputRecord& record) { return !inputs_.has(record.source); });
}

void IngestWorker::flush_idle() {
  if (!config_.idle_flush_after || !batch_.empty()) return;
  const base::SteadyTime now = parts_.steady.now();
  const std::vector<Partition> partitions = inputs_.partitions();
  std::erase_if(idle_since_, [&](const auto& entry) {
    return !std::binary_search(partitions.begin(), partitions.end(), entry.first);
  });
  for (const Partition p : partitions) {
    if (!inputs_.idle(p)) {
      idle_since_.erase(p);
      flushed_at_.erase(p);
      continue;
    }
    const auto since = idle_since_.try_emplace(p, now).first->second;
    const auto flushed = flushed_at_.find(p);
    if (now - since < *config_.idle_flush_after) continue;
    if (flushed != flushed_at_.end() && now - flushed->second < config_.idle_flush_every) continue;
    flushed_at_[p] = now;
    const auto closed = parts_.sink.idle(p);
    if (!closed) {
      base::log_warning("partition {}: closing idle windows failed, trying again: {}", p,
                        closed.error().message);
    }
  }
}

void IngestWorker::post_close(Done done) {
  {
    base::MutexLock lock(mutex_);
    if (!ended_) {
      posted_.push_back(std::move(done));
      return;
    }
  }
  done.set_value(base::fail(ErrorCode::kClosed, "ingest is not running"));
}

void IngestWorker::serve_closes() {
  std::vector<Done> posted;
  {
    base::MutexLock lock(mutex_);
    posted.swap(posted_);
  }
  for (Done& done : posted) {
    Close close{std::move(done), {}, parts_.steady.now()};
    base::Result<void> known;
    if (!inputs_.assigned()) {
      known = base::fail(ErrorCode::kUnavailable, "no partition is assigned yet");
    }
    for (const auto& [source, input] : inputs_.all()) {
      if (!known) break;
      const auto bounds = parts_.log.bounds(source);
      if (bounds) {
        close.ends[source] = bounds->next;
      } else {
        known = base::fail(bounds.error());
      }
    }
    if (known) {
      closes_.push_back(std::move(close));
    } else {
      close.done.set_value(std::move(known));
    }
  }
  std::erase_if(closes_, [this](Close& close) {
    if (!reached(close)) return false;
    close.done.set_value(close_partitions());
    return true;
  });
}

bool IngestWorker::reached(const Close& close) const {
  if (!batch_.empty() || inputs_.broker_lost()) return false;
  const bool quiet = parts_.steady.now() - close.taken_at >= kQuietEnd;
  return std::all_of(close.ends.begin(), close.ends.end(), [&](const auto& entry) {
    const auto found = inputs_.all().find(entry.first);
    if (found == inputs_.all().end()) return true;  // stopped or taken away meanwhile
    const IngestInput& input = found->second;
    return (entry.second == 0 && input.at_end) ||
           (input.next_apply && *input.next_apply >= entry.second) || (quiet && input.idle());
  });
}

base::Result<void> IngestWorker::close_partitions() {
  if (inputs_.partitions().empty()) {  // the group is about to give some again: nothing was closed
    return base::fail(ErrorCode::kUnavailable, "no partition is assigned to this node");
  }
  for (const Partition p : inputs_.partitions()) SF_TRY(parts_.sink.close_windows(p));
  return {};
}

base::Result<void> IngestWorker::run_until_end(IngestLoop::AtEnd at_end) {
  SF_TRY(inputs_.open());
  while (true) {
    if (inputs_.assign_error()) return base::fail(*inputs_.assign_error());
    SF_TRY(inputs_.poll(poll_time()));
    if (!inputs_.stopped().empty()) return base::fail(inputs_.stopped().begin()->second);
    SF_TRY(inputs_.regulate());
    do {
      SF_TRY(apply_next());
    } while (more_);
    if (inputs_.at_end() && merge_.empty()) break;
    publish_state(true);
  }
  if (at_end == IngestLoop::AtEnd::kCloseWindows) SF_TRY(close_partitions());
  publish_state(false);
  return {};
}

/// Every input was read to its end once, and what had been read by then is applied.
bool IngestWorker::caught_up() {
  if (!inputs_.opened() || !inputs_.caught_up()) {
    ends_.reset();
    return false;
  }
  if (!ends_) {
    ends_.emplace();
    for (const auto& [source, input] : inputs_.all()) ends_->emplace(source, input.next_read);
  }
  std::erase_if(*ends_, [this](const auto& end) {
    const auto found = inputs_.all().find(end.first);
    return found == inputs_.all().end() || found->second.next_apply >= end.second;
  });
  return ends_->empty();
}

IngestState IngestWorker::state() const {
  base::MutexLock lock(mutex_);
  return state_;
}

void IngestWorker::publish_state(bool running) {
  IngestState next;
  next.running = running;
  next.assigned = inputs_.assigned();
  next.broker_lost = inputs_.broker_lost();
  next.caught_up = caught_up();
  next.at_end = inputs_.opened() && inputs_.at_end() && merge_.empty() && batch_.empty();
  next.records_applied = records_applied_;
  next.batches_applied = batches_applied_;
  next.partitions = inputs_.partitions();
  for (const auto& [source, input] : inputs_.all()) {
    next.next_offsets[source] = input.next_apply.value_or(0);
  }
  next.stopped = inputs_.stopped();
  next.sink_error = sink_backoff_.error();
  next.input_error = input_backoff_.error() ? input_backoff_.error() : inputs_.assign_error();
  parts_.probe.broker_up(!next.broker_lost && inputs_.opened());
  parts_.probe.stopped_partitions(next.stopped.size());
  base::MutexLock lock(mutex_);
  state_ = std::move(next);
}

}  // namespace sirenfeed::ingest
