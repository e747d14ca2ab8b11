#include "ingest/embedded_impl.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "base/log.h"

namespace sirenfeed::ingest {
namespace {

using base::ErrorCode;
using Steady = std::chrono::steady_clock;

constexpr auto kRetentionPeriod = std::chrono::seconds(10);
constexpr std::string_view kDescription = "sirenfeed log, format 1, partitions ";

Partition count_of(Topic topic, Partition partitions) {
  return topic == Topic::kItems || topic == Topic::kDeadLetters ? 1 : partitions;
}

}  // namespace

EmbeddedLog::Impl::Impl(EmbeddedLogConfig config) : config_(std::move(config)) {}

base::Result<std::unique_ptr<EmbeddedLog::Impl>> EmbeddedLog::Impl::open(
    const EmbeddedLogConfig& config) {
  SF_TRY(config.validate());
  std::unique_ptr<Impl> log(new Impl(config));
  SF_TRY(log->take_folder());
  SF_TRY(log->check_partitions());
  SF_TRY(log->open_partitions());
  log->thread_ = std::thread([impl = log.get()] { impl->run(); });
  return log;
}

EmbeddedLog::Impl::~Impl() {
  {
    base::MutexLock lock(queue_mutex_);
    stopped_ = true;
  }
  filled_.notify_all();
  if (thread_.joinable()) thread_.join();
}

base::Result<void> EmbeddedLog::Impl::take_folder() {
  SF_TRY(embedded::make_dirs(config_.dir));
  SF_ASSIGN(lock_, embedded::File::open(config_.dir / "LOCK", embedded::File::Mode::kReadWrite));
  SF_ASSIGN(const bool ours, lock_.try_lock());
  if (!ours) {
    std::string owner;
    SF_TRY(lock_.read_at(0, 32, owner));
    return base::fail(ErrorCode::kLocked,
                      "the log folder {} is in use by process {}; stop it, or use another folder",
                      config_.dir.string(), owner);
  }
  SF_TRY(lock_.truncate(0));
  return lock_.write_at(0, std::to_string(::getpid()));
}

base::Result<void> EmbeddedLog::Impl::check_partitions() {
  const std::filesystem::path path = config_.dir / "LOG";
  auto file = embedded::File::open(path, embedded::File::Mode::kRead);
  if (!file && file.error().code == ErrorCode::kNotFound) {
    return embedded::replace_file(path, fmt::format("{}{}\n", kDescription, config_.partitions));
  }
  if (!file) return base::fail(file.error());
  std::string text;
  SF_TRY(file->read_at(0, 256, text));
  Partition partitions = 0;
  const char* digits = text.data() + std::min(text.size(), kDescription.size());
  const auto parsed = std::from_chars(digits, text.data() + text.size(), partitions);
  if (!text.starts_with(kDescription) || parsed.ec != std::errc{}) {
    return base::fail(ErrorCode::kCorrupt, "{}: expected \"{}N\", found \"{}\"", path.string(),
                      kDescription, text);
  }
  if (partitions != config_.partitions) {
    return base::fail(ErrorCode::kInvalidArgument,
                      "the log in {} was made with {} partitions, the configuration says "
                      "partitions = {}: users would change their partition",
                      config_.dir.string(), partitions, config_.partitions);
  }
  return {};
}

base::Result<void> EmbeddedLog::Impl::open_partitions() {
  for (const Topic topic : {Topic::kItems, Topic::kUsers, Topic::kRequests, Topic::kImpressions,
                            Topic::kClicks, Topic::kExamples, Topic::kDeadLetters}) {
    for (Partition p = 0; p < count_of(topic, config_.partitions); ++p) {
      SF_ASSIGN(logs_[(TopicPartition{topic, p})],
                embedded::PartitionLog::open(config_, {topic, p}));
    }
  }
  return {};
}

base::Result<embedded::PartitionLog*> EmbeddedLog::Impl::find(TopicPartition source) const {
  const auto found = logs_.find(source);
  if (found == logs_.end()) {
    return base::fail(ErrorCode::kNotFound, "{}/{} does not exist: the topic has {} partitions",
                      topic_name(source.topic), source.partition,
                      count_of(source.topic, config_.partitions));
  }
  return found->second.get();
}

std::vector<Partition> EmbeddedLog::Impl::all_partitions() const {
  std::vector<Partition> all;
  for (Partition p = 0; p < config_.partitions; ++p) all.push_back(p);
  return all;
}

// --- the queue -----------------------------------------------------------------------------------

base::Result<void> EmbeddedLog::Impl::enqueue(const std::shared_ptr<embedded::WriterState>& writer,
                                              TopicPartition target,
                                              const std::optional<std::string>& key,
                                              const std::optional<std::string>& value,
                                              base::UnixMs time_ms,
                                              LogWriter::OnDelivered on_delivered) {
  const auto deadline = Steady::now() + config_.queue_full_wait_max;
  base::MutexLock lock(queue_mutex_);
  while (queue_bytes_ >= config_.queue_bytes_max) {
    const auto left = deadline - Steady::now();
    if (left <= left.zero()) {
      return base::fail(ErrorCode::kUnavailable,
                        "the log's queue was full (queue_bytes_max = {}) for {} ms",
                        config_.queue_bytes_max, config_.queue_full_wait_max.count());
    }
    lock.wait_for(drained_, left);
  }
  if (writer->dead()) {
    return base::fail(ErrorCode::kClosed, "an earlier delivery of writer {} failed: {}",
                      writer->name(), writer->error().message);
  }
  const bool first = queue_.empty();
  embedded::AppendBatch& batch = queue_[target];
  const std::size_t begin = batch.frames.size();
  embedded::append_frame(batch.frames, key, value, time_ms);
  const std::size_t bytes = batch.frames.size() - begin;
  batch.appends.push_back({writer, begin, bytes, std::move(on_delivered), Offset{0}});
  ++writer->under_way;
  const std::size_t half_full = config_.queue_bytes_max / 2;
  const bool now_half_full = queue_bytes_ < half_full && queue_bytes_ + bytes >= half_full;
  queue_bytes_ += bytes;
  if (first || now_half_full) filled_.notify_one();
  return {};
}

bool EmbeddedLog::Impl::wait_delivered(const embedded::WriterState& writer,
                                       std::optional<Steady::time_point> deadline) {
  base::MutexLock lock(queue_mutex_);
  ++waiting_;
  filled_.notify_one();
  while (writer.under_way > 0) {
    if (!deadline) {
      lock.wait(drained_);
      continue;
    }
    const auto left = *deadline - Steady::now();
    if (left <= left.zero()) break;
    lock.wait_for(drained_, left);
  }
  --waiting_;
  return writer.under_way == 0;
}

bool EmbeddedLog::Impl::commit_is_due(Steady::time_point now) const {
  if (queue_.empty()) return false;
  return config_.fsync != FsyncPolicy::kInterval || stopped_ || waiting_ > 0 ||
         queue_bytes_ >= config_.queue_bytes_max / 2 || now >= next_commit_;
}

/// Waits for something to commit; nullopt when the log is being closed and nothing is left. Empty
/// when it is time to look at retention.
std::optional<EmbeddedLog::Impl::Batches> EmbeddedLog::Impl::next_batches() {
  const auto retention_at = Steady::now() + kRetentionPeriod;
  base::MutexLock lock(queue_mutex_);
  while (true) {
    const auto now = Steady::now();
    if (commit_is_due(now)) break;
    if (stopped_) return std::nullopt;
    if (now >= retention_at) break;
    const bool lingers = !queue_.empty();
    lock.wait_for(filled_, (lingers ? std::min(next_commit_, retention_at) : retention_at) - now);
  }
  next_commit_ = Steady::now() + config_.fsync_interval;
  return std::exchange(queue_, {});
}

// --- the log's thread ----------------------------------------------------------------------------

void EmbeddedLog::Impl::run() noexcept {
  auto retention_at = Steady::now();
  while (auto batches = next_batches()) {
    commit(*batches);
    report(*batches);
    if (Steady::now() < retention_at) continue;
    for (const auto& [source, log] : logs_) log->drop_old();
    retention_at = Steady::now() + kRetentionPeriod;
  }
}

void EmbeddedLog::Impl::commit(Batches& batches) {
  if (batches.empty()) return;
  for (auto& [target, batch] : batches) logs_.at(target)->commit(batch);
  {
    base::MutexLock lock(commit_mutex_);
    ++commits_;
  }
  committed_.notify_all();
}

void EmbeddedLog::Impl::report(Batches& batches) {
  std::size_t bytes = 0;
  for (auto& [target, batch] : batches) {
    bytes += batch.frames.size();
    for (embedded::AppendBatch::Append& append : batch.appends) {
      if (append.on_delivered) append.on_delivered(std::move(append.result));
    }
  }
  {
    base::MutexLock lock(queue_mutex_);
    queue_bytes_ -= bytes;
    for (auto& [target, batch] : batches) {
      for (embedded::AppendBatch::Append& append : batch.appends) --append.writer->under_way;
    }
  }
  drained_.notify_all();
}

std::uint64_t EmbeddedLog::Impl::commits() const {
  base::MutexLock lock(commit_mutex_);
  return commits_;
}

void EmbeddedLog::Impl::wait_commit(std::uint64_t seen, Steady::time_point deadline) const {
  base::MutexLock lock(commit_mutex_);
  while (commits_ == seen) {
    const auto left = deadline - Steady::now();
    if (left <= left.zero()) return;
    lock.wait_for(committed_, left);
  }
}

}  // namespace sirenfeed::ingest
