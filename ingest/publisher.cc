#include "ingest/publisher.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <filesystem>
#include <fstream>
#include <memory>
#include <system_error>
#include <thread>
#include <utility>

#include "base/hash.h"
#include "base/log.h"
#include "base/mutex.h"
#include "ingest/publish_resume.h"

namespace sirenfeed::ingest {
namespace {

using base::ErrorCode;
using std::chrono::milliseconds;
using SteadyNow = std::chrono::steady_clock;

constexpr std::size_t kFingerprintBytes = 64U << 10U;
constexpr milliseconds kWaitSlice{50};  // how long a wait may hold up a stop
constexpr milliseconds kSaveEvery{1'000};

/// Which records from the first on are durable, told by the writer in any order across partitions.
/// Shared with callbacks that may come after publish() has returned. Threads: any.
class Acknowledgements {
 public:
  explicit Acknowledgements(ResumePoint from) : point_(std::move(from)) {}

  void add(std::uint64_t index, TopicPartition target, const base::Result<Offset>& result) {
    {
      base::MutexLock lock(mutex_);
      if (!result) {
        if (!error_) error_ = result.error();
      } else {
        const auto at = static_cast<std::size_t>(index - point_.acknowledged);
        if (ahead_.size() <= at) ahead_.resize(at + 1);
        ahead_[at] = {target, *result};
        while (!ahead_.empty() && ahead_.front()) settle_first();
      }
    }
    changed_.notify_all();
  }
  ResumePoint point() const {
    base::MutexLock lock(mutex_);
    return point_;
  }
  std::uint64_t done() const {
    base::MutexLock lock(mutex_);
    return point_.acknowledged;
  }
  std::optional<base::Error> error() const {
    base::MutexLock lock(mutex_);
    return error_;
  }
  /// False when neither `count` records are done nor one has failed within `timeout`.
  bool wait_for(std::uint64_t count, milliseconds timeout) {
    const auto deadline = SteadyNow::now() + timeout;
    base::MutexLock lock(mutex_);
    while (point_.acknowledged < count && !error_) {
      const auto left = deadline - SteadyNow::now();
      if (left <= left.zero()) return false;
      lock.wait_for(changed_, left);
    }
    return true;
  }

 private:
  using Place = std::pair<TopicPartition, Offset>;
  void settle_first() SF_REQUIRES(mutex_) {
    const auto [target, offset] = *ahead_.front();
    const auto known = point_.offsets.find(target);
    if (known != point_.offsets.end()) known->second = std::max(known->second, offset + 1);
    ahead_.pop_front();
    ++point_.acknowledged;
  }

  mutable base::Mutex mutex_;
  std::condition_variable changed_;
  ResumePoint point_ SF_GUARDED_BY(mutex_);
  std::deque<std::optional<Place>> ahead_ SF_GUARDED_BY(mutex_);  // of the records behind point_
  std::optional<base::Error> error_ SF_GUARDED_BY(mutex_);
};

class Publisher {
 public:
  Publisher(ReplayReader& replay, PublishTarget target, const PublisherConfig& config,
            const std::function<void(const PublishProgress&)>& progress,
            const std::stop_token& stop)
      : replay_(replay),
        writer_(target.writer),
        log_(target.log),
        config_(config),
        progress_(progress),
        stop_(stop),
        resume_(config.resume_file, config.identity) {}

  base::Result<PublishProgress> run() {
    SF_TRY(find_start());
    auto sent = send_all();
    if (sent) sent = await(records_, config_.flush_wait_max);
    if (!sent) {
      SF_TRY(resume_.save(acknowledged_->point()));
      return base::fail(sent.error());
    }
    resume_.remove();
    report(true);
    return now();
  }

 private:
  [[nodiscard]] PublishProgress now() const {
    return {records_,
            acknowledged_->done(),
            replay_.bytes_read(),
            replay_.bytes_total(),
            time_ms_,
            resumed_,
            found_here_};
  }

  /// Where an earlier run came to, by the resume file and the log; else the beginning.
  base::Result<void> find_start() {
    SF_ASSIGN(auto point, resume_.load());
    if (point) {
      resumed_ = point->acknowledged;
      if (log_ != nullptr && !point->offsets.empty()) {
        SF_ASSIGN(found_, FoundRecords::read(*log_, *point));
        base::log_info(
            "going on from {}: {} records of the input are in the log, and behind them "
            "{} more, of which those of this input are not sent again",
            resume_.path(), resumed_, found_.size());
      } else {
        base::log_info(
            "going on from {} behind record {}; what was sent after it is sent again "
            "and recognised by its id",
            resume_.path(), resumed_);
      }
    } else {
      point.emplace();
      if (resume_.kept() && log_ != nullptr) {
        SF_ASSIGN(point->offsets, log_ends(*log_));
      }
      SF_TRY(resume_.save(*point));
    }
    acknowledged_ = std::make_shared<Acknowledgements>(*std::move(point));
    return {};
  }

  void report(bool last) {
    const auto time = SteadyNow::now();
    if (!last && time - reported_at_ < config_.report_every) return;
    reported_at_ = time;
    if (progress_) progress_(now());
    if (last || time - saved_at_ < kSaveEvery) return;
    saved_at_ = time;
    const auto saved = resume_.save(acknowledged_->point());
    if (!saved) base::log_warning("{}", saved.error().message);
  }

  base::Result<void> stopped() const {
    if (!stop_.stop_requested()) return {};
    return base::fail(ErrorCode::kClosed, "stopped after {} acknowledged records",
                      acknowledged_->done());
  }

  base::Result<void> send_all() {
    while (true) {
      SF_TRY(stopped());
      SF_ASSIGN(auto record, replay_.next());
      if (!record) break;
      time_ms_ = record->time_ms;
      if (records_++ < resumed_) continue;
      const TopicPartition target = target_of(*record);
      if (const auto offset = found_.take(target, *record)) {
        ++found_here_;
        acknowledged_->add(records_ - 1, target, *offset);
        continue;
      }
      SF_TRY(pace());
      SF_TRY(send(*record, target));
      if (records_ % 64 == 0 || config_.speed) report(false);
    }
    if (records_ >= resumed_) return {};
    return base::fail(ErrorCode::kInvalidArgument,
                      "the resume file counts {} records, the input has only {}", resumed_,
                      records_);
  }

  /// Waits until it is this record's turn.
  base::Result<void> pace() {
    if (!config_.speed) return {};
    if (!first_) first_ = {time_ms_, SteadyNow::now()};
    const double event_ms = static_cast<double>(time_ms_ - first_->first);
    const auto due =
        first_->second + std::chrono::duration_cast<SteadyNow::duration>(
                             std::chrono::duration<double, std::milli>(event_ms / *config_.speed));
    if (due - SteadyNow::now() > kWaitSlice) SF_TRY(nudge());
    while (SteadyNow::now() < due) {
      SF_TRY(stopped());
      report(false);
      std::this_thread::sleep_until(std::min(due, SteadyNow::now() + kWaitSlice));
    }
    return {};
  }

  [[nodiscard]] TopicPartition target_of(const ReplayRecord& record) const {
    const Partition partitions =
        record.topic == Topic::kItems ? config_.item_partitions : config_.partitions;
    return {record.topic, partition_of(record.key, partitions)};
  }

  base::Result<void> send(const ReplayRecord& record, TopicPartition target) {
    const std::uint64_t index = records_ - 1;
    const std::size_t bytes = record.key.size() + (record.value ? record.value->size() : 0);
    if (bytes > config_.message_bytes_max) {
      return base::fail(
          ErrorCode::kTooLarge, "record {} ({}, key {}): {} bytes are over message_bytes_max = {}",
          records_, topic_name(record.topic), record.key, bytes, config_.message_bytes_max);
    }
    SF_TRY(await(records_ - std::min<std::uint64_t>(records_, config_.unacknowledged_max),
                 std::nullopt));
    while (true) {
      // The log's time is the time of publishing, as with any producer: retention goes by it.
      auto appended = writer_.append(
          target, record.key, record.value, clock_.now_ms(),
          [index, target, acknowledged = acknowledged_](const base::Result<Offset>& result) {
            acknowledged->add(index, target, result);
          });
      if (appended) return {};
      if (appended.error().code == ErrorCode::kUnavailable) {  // its queue is full
        SF_TRY(stopped());
        report(false);
        continue;
      }
      const auto first = acknowledged_->error();
      const base::Error error = first.value_or(appended.error());
      return base::fail(error.code, "record {} ({}, key {}): {}", records_,
                        topic_name(record.topic), record.key, error.message);
    }
  }

  /// Lets a writer that collects batches send what it has; it may need longer than one slice.
  base::Result<void> nudge() {
    auto flushed = writer_.flush(kWaitSlice);
    const bool fine = flushed || flushed.error().code == ErrorCode::kUnavailable ||
                      acknowledged_->error().has_value();  // await() reports that one
    return fine ? base::Result<void>() : flushed;
  }

  /// Until `count` records are acknowledged; `quiet_max` bounds the time without any progress.
  base::Result<void> await(std::uint64_t count, std::optional<milliseconds> quiet_max) {
    std::uint64_t before = acknowledged_->done();
    auto moved_at = SteadyNow::now();
    while (!acknowledged_->wait_for(count, kWaitSlice)) {
      SF_TRY(stopped());
      SF_TRY(nudge());
      report(false);
      const std::uint64_t done = acknowledged_->done();
      if (std::exchange(before, done) != done) moved_at = SteadyNow::now();
      if (quiet_max && SteadyNow::now() - moved_at > *quiet_max) {
        return base::fail(ErrorCode::kUnavailable,
                          "no acknowledgement for {} ms, {} of {} records are acknowledged",
                          quiet_max->count(), done, count);
      }
    }
    if (const auto error = acknowledged_->error()) {
      return base::fail(error->code, "delivery failed after {} acknowledged records: {}",
                        acknowledged_->done(), error->message);
    }
    return {};
  }

  ReplayReader& replay_;
  LogWriter& writer_;
  EventLog* const log_;
  const PublisherConfig& config_;
  const std::function<void(const PublishProgress&)>& progress_;
  const std::stop_token& stop_;
  const ResumeFile resume_;
  const base::WallClock clock_;
  std::shared_ptr<Acknowledgements> acknowledged_;
  FoundRecords found_;
  std::uint64_t records_ = 0;
  std::uint64_t resumed_ = 0;
  std::uint64_t found_here_ = 0;
  base::UnixMs time_ms_ = 0;
  std::optional<std::pair<base::UnixMs, SteadyNow::time_point>> first_;  // where pacing began
  SteadyNow::time_point reported_at_{};
  SteadyNow::time_point saved_at_{};
};

}  // namespace

base::Result<void> PublisherConfig::validate() const {
  const auto bad = [](const char* name, const char* expected) {
    return base::fail(ErrorCode::kInvalidArgument, "{}: expected {}", name, expected);
  };
  if (partitions < 1) return bad("partitions", "at least 1");
  if (item_partitions < 1) return bad("item_partitions", "at least 1");
  if (speed && !(*speed > 0)) return bad("speed", "max or a factor above 0");
  if (message_bytes_max == 0) return bad("message_bytes_max", "at least 1");
  if (unacknowledged_max == 0) return bad("unacknowledged_max", "at least 1");
  if (resume_file && identity.empty()) return bad("identity", "the name of input and target");
  return {};
}

base::Result<PublishProgress> publish(ReplayReader& replay, PublishTarget target,
                                      const PublisherConfig& config,
                                      const std::function<void(const PublishProgress&)>& progress,
                                      const std::stop_token& stop) {
  SF_TRY(config.validate());
  return Publisher(replay, target, config, progress, stop).run();
}

base::Result<std::string> file_fingerprint(const std::string& path) {
  std::error_code error;
  const auto size = std::filesystem::file_size(path, error);
  std::ifstream file(path, std::ios::binary);
  if (error || !file) {
    return base::fail(ErrorCode::kNotFound, "{}: cannot be read", path);
  }
  const auto read_at = [&](std::uintmax_t offset) {
    std::string bytes(std::min<std::uintmax_t>(kFingerprintBytes, size - offset), '\0');
    file.seekg(static_cast<std::streamoff>(offset));
    file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    return bytes;
  };
  const std::string begin = read_at(0);
  const std::string end = read_at(size - std::min<std::uintmax_t>(kFingerprintBytes, size));
  if (!file) return base::fail(ErrorCode::kStorage, "{}: cannot be read", path);
  return fmt::format("{}:{}:{:016x}{:016x}", std::filesystem::path(path).filename().string(), size,
                     base::xxh3_64(begin), base::xxh3_64(end));
}

}  // namespace sirenfeed::ingest
