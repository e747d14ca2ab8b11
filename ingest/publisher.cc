#include "ingest/publisher.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <boost/json.hpp>
#include <condition_variable>
#include <cstdio>
#include <deque>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <system_error>
#include <thread>
#include <utility>

#include "base/hash.h"
#include "base/log.h"
#include "base/mutex.h"

namespace sirenfeed::ingest {
namespace {

namespace json = boost::json;
using base::ErrorCode;
using std::chrono::milliseconds;
using SteadyNow = std::chrono::steady_clock;

constexpr std::size_t kFingerprintBytes = 64U << 10U;
constexpr milliseconds kWaitSlice{50};  // how long a wait may hold up a stop
constexpr milliseconds kSaveEvery{1'000};

/// How many records from the first on are durable, told by the writer in any order across
/// partitions. Shared with callbacks that may come after publish() has returned. Threads: any.
class Acknowledgements {
 public:
  explicit Acknowledgements(std::uint64_t from) : done_(from) {}

  void add(std::uint64_t index, const base::Result<Offset>& result) {
    {
      base::MutexLock lock(mutex_);
      if (!result) {
        if (!error_) error_ = result.error();
      } else {
        const auto at = static_cast<std::size_t>(index - done_);
        if (ahead_.size() <= at) ahead_.resize(at + 1, false);
        ahead_[at] = true;
        while (!ahead_.empty() && ahead_.front()) {
          ahead_.pop_front();
          ++done_;
        }
      }
    }
    changed_.notify_all();
  }
  std::uint64_t done() const {
    base::MutexLock lock(mutex_);
    return done_;
  }
  std::optional<base::Error> error() const {
    base::MutexLock lock(mutex_);
    return error_;
  }
  /// False when neither `count` records are done nor one has failed within `timeout`.
  bool wait_for(std::uint64_t count, milliseconds timeout) {
    const auto deadline = SteadyNow::now() + timeout;
    base::MutexLock lock(mutex_);
    while (done_ < count && !error_) {
      const auto left = deadline - SteadyNow::now();
      if (left <= left.zero()) return false;
      lock.wait_for(changed_, left);
    }
    return true;
  }

 private:
  mutable base::Mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t done_ SF_GUARDED_BY(mutex_);
  std::deque<bool> ahead_ SF_GUARDED_BY(mutex_);  // of the records from done_ on
  std::optional<base::Error> error_ SF_GUARDED_BY(mutex_);
};

/// The resume file: {"identity","acknowledged"}, replaced as a whole.
class ResumeFile {
 public:
  ResumeFile(std::optional<std::string> path, std::string identity)
      : path_(std::move(path)), identity_(std::move(identity)) {}

  base::Result<std::uint64_t> load() const {
    if (!path_ || !std::filesystem::exists(*path_)) return std::uint64_t{0};
    std::ifstream file(*path_, std::ios::binary);
    std::stringstream text;
    text << file.rdbuf();
    boost::system::error_code error;
    const json::value root = json::parse(text.str(), error);
    const json::object* object = error ? nullptr : root.if_object();
    const json::value* identity = object == nullptr ? nullptr : object->if_contains("identity");
    const json::value* count = object == nullptr ? nullptr : object->if_contains("acknowledged");
    if (identity == nullptr || !identity->is_string() || count == nullptr) {
      return base::fail(ErrorCode::kDecode, "{}: expected a resume file of publish", *path_);
    }
    const auto acknowledged = count->to_number<std::uint64_t>(error);
    if (error) return base::fail(ErrorCode::kDecode, "{}: acknowledged: bad count", *path_);
    if (identity->get_string() != identity_) {
      return base::fail(ErrorCode::kInvalidArgument,
                        "{}: is of another input or target ({}), expected {}", *path_,
                        std::string_view(identity->get_string()), identity_);
    }
    return acknowledged;
  }
  base::Result<void> save(std::uint64_t acknowledged) const {
    if (!path_) return {};
    const std::string text =
        json::serialize(json::object{{"identity", identity_}, {"acknowledged", acknowledged}});
    const std::string next = *path_ + ".next";
    const int file = ::open(next.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    bool good =
        file >= 0 && ::write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
    good = good && ::fsync(file) == 0;
    if (file >= 0) good = ::close(file) == 0 && good;
    if (good && std::rename(next.c_str(), path_->c_str()) == 0) return {};
    return base::fail(ErrorCode::kStorage, "{}: cannot be written: {}", *path_,
                      std::generic_category().message(errno));
  }
  void remove() const {
    if (path_) std::remove(path_->c_str());
  }

 private:
  const std::optional<std::string> path_;
  const std::string identity_;
};

class Publisher {
 public:
  Publisher(ReplayReader& replay, LogWriter& writer, const PublisherConfig& config,
            const std::function<void(const PublishProgress&)>& progress,
            const std::stop_token& stop)
      : replay_(replay),
        writer_(writer),
        config_(config),
        progress_(progress),
        stop_(stop),
        resume_(config.resume_file, config.identity) {}

  base::Result<PublishProgress> run() {
    SF_ASSIGN(const std::uint64_t skip, resume_.load());
    acknowledged_ = std::make_shared<Acknowledgements>(skip);
    auto sent = send_all(skip);
    if (sent) sent = await(records_, config_.flush_wait_max);
    if (!sent) {
      SF_TRY(resume_.save(acknowledged_->done()));
      return base::fail(sent.error());
    }
    resume_.remove();
    report(true);
    return now();
  }

 private:
  [[nodiscard]] PublishProgress now() const {
    return {records_, acknowledged_->done(), replay_.bytes_read(), replay_.bytes_total(), time_ms_};
  }

  void report(bool last) {
    const auto time = SteadyNow::now();
    if (!last && time - reported_at_ < config_.report_every) return;
    reported_at_ = time;
    if (progress_) progress_(now());
    if (last || time - saved_at_ < kSaveEvery) return;
    saved_at_ = time;
    const auto saved = resume_.save(acknowledged_->done());
    if (!saved) base::log_warning("{}", saved.error().message);
  }

  base::Result<void> stopped() const {
    if (!stop_.stop_requested()) return {};
    return base::fail(ErrorCode::kClosed, "stopped after {} acknowledged records",
                      acknowledged_->done());
  }

  base::Result<void> send_all(std::uint64_t skip) {
    while (true) {
      SF_TRY(stopped());
      SF_ASSIGN(auto record, replay_.next());
      if (!record) break;
      time_ms_ = record->time_ms;
      if (records_++ < skip) continue;
      SF_TRY(pace());
      SF_TRY(send(*record));
      if (records_ % 64 == 0 || config_.speed) report(false);
    }
    if (records_ >= skip) return {};
    return base::fail(ErrorCode::kInvalidArgument,
                      "the resume file counts {} records, the input has only {}", skip, records_);
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

  base::Result<void> send(const ReplayRecord& record) {
    const std::uint64_t index = records_ - 1;
    const std::size_t bytes = record.key.size() + (record.value ? record.value->size() : 0);
    if (bytes > config_.message_bytes_max) {
      return base::fail(
          ErrorCode::kTooLarge, "record {} ({}, key {}): {} bytes are over message_bytes_max = {}",
          records_, topic_name(record.topic), record.key, bytes, config_.message_bytes_max);
    }
    SF_TRY(await(records_ - std::min<std::uint64_t>(records_, config_.unacknowledged_max),
                 std::nullopt));
    const Partition partitions =
        record.topic == Topic::kItems ? config_.item_partitions : config_.partitions;
    const TopicPartition target{record.topic, partition_of(record.key, partitions)};
    while (true) {
      // The log's time is the time of publishing, as with any producer: retention goes by it.
      auto appended =
          writer_.append(target, record.key, record.value, clock_.now_ms(),
                         [index, acknowledged = acknowledged_](const base::Result<Offset>& result) {
                           acknowledged->add(index, result);
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
  const PublisherConfig& config_;
  const std::function<void(const PublishProgress&)>& progress_;
  const std::stop_token& stop_;
  const ResumeFile resume_;
  const base::WallClock clock_;
  std::shared_ptr<Acknowledgements> acknowledged_;
  std::uint64_t records_ = 0;
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

base::Result<PublishProgress> publish(ReplayReader& replay, LogWriter& writer,
                                      const PublisherConfig& config,
                                      const std::function<void(const PublishProgress&)>& progress,
                                      const std::stop_token& stop) {
  SF_TRY(config.validate());
  return Publisher(replay, writer, config, progress, stop).run();
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
