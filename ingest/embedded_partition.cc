#include "ingest/embedded_partition.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <system_error>
#include <utility>

#include "base/log.h"

namespace sirenfeed::ingest::embedded {
namespace {

using base::ErrorCode;
namespace fs = std::filesystem;

constexpr std::string_view kSuffix = ".segment";

std::optional<Offset> base_of(const fs::path& path) {
  if (path.extension() != kSuffix) return std::nullopt;
  const std::string stem = path.stem().string();
  Offset base = 0;
  const auto [end, error] = std::from_chars(stem.data(), stem.data() + stem.size(), base);
  if (error != std::errc{} || end != stem.data() + stem.size() || base < 0) return std::nullopt;
  return base;
}

}  // namespace

void WriterState::kill(const base::Error& error) {
  base::MutexLock lock(mutex_);
  if (dead_.load(std::memory_order_relaxed)) return;
  error_ = error;
  dead_.store(true, std::memory_order_release);
}

base::Error WriterState::error() const {
  base::MutexLock lock(mutex_);
  return error_;
}

PartitionLog::PartitionLog(const EmbeddedLogConfig& config, TopicPartition source)
    : config_(config),
      source_(source),
      dir_(config.dir / fmt::format("{}-{}", topic_name(source.topic), source.partition)) {}

base::Result<std::unique_ptr<PartitionLog>> PartitionLog::open(const EmbeddedLogConfig& config,
                                                               TopicPartition source) {
  std::unique_ptr<PartitionLog> log(new PartitionLog(config, source));
  SF_TRY(make_dirs(log->dir_));
  SF_TRY(log->open_segments());
  return log;
}

fs::path PartitionLog::segment_path(Offset base) const {
  return dir_ / fmt::format("{:020}{}", base, kSuffix);
}

base::Result<void> PartitionLog::open_segments() {
  std::vector<std::pair<Offset, fs::path>> files;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(dir_, error)) {
    if (const auto base = base_of(entry.path())) files.emplace_back(*base, entry.path());
  }
  if (error) {
    return base::fail(ErrorCode::kStorage, "cannot list {}: {}", dir_.string(), error.message());
  }
  std::ranges::sort(files);
  if (!files.empty()) {
    // A crash (or a full disk) between making a segment and its header: it never held a record.
    SF_ASSIGN(const File last, File::open(files.back().second, File::Mode::kRead));
    SF_ASSIGN(const std::uint64_t bytes, last.size());
    if (bytes < kHeaderBytes && files.size() > 1) {
      fs::remove(files.back().second, error);
      files.pop_back();
    }
  }
  if (files.empty()) return start_segment(0);
  for (std::size_t i = 0; i + 1 < files.size(); ++i) {
    // A sealed segment is read and verified when a reader comes to it, not now.
    SF_ASSIGN(const File file, File::open(files[i].second, File::Mode::kRead));
    SF_ASSIGN(const std::uint64_t bytes, file.size());
    base::MutexLock lock(mutex_);
    segments_.push_back(
        std::make_shared<Segment>(files[i].second, files[i].first, files[i + 1].first, bytes));
  }
  return open_last(files.back().second, files.back().first);
}

base::Result<void> PartitionLog::open_last(const fs::path& path, Offset base) {
  SF_ASSIGN(const Recovered found, recover(path, base));
  if (found.bytes == 0) return start_segment(base);  // not even a header was written
  SF_ASSIGN(file_, File::open(path, File::Mode::kReadWrite));
  if (found.torn_bytes > 0) {
    base::log_warning("{}: cut off {} torn bytes after offset {} (byte {}), left by a crash",
                      path.string(), found.torn_bytes, found.next - 1, found.bytes);
    SF_TRY(file_.truncate(found.bytes));
  }
  // What a killed process left in the page cache is delivered to readers from now on.
  if (config_.fsync != FsyncPolicy::kNever) SF_TRY(file_.sync());
  active_ = std::make_shared<Segment>(path, base, found.next, found.bytes);
  base::MutexLock lock(mutex_);
  segments_.push_back(active_);
  return {};
}

base::Result<File> PartitionLog::make_segment_file(const fs::path& path, Offset base) const {
  SF_ASSIGN(File file, File::open(path, File::Mode::kCreate));
  const SegmentHeader header = make_header(base);
  SF_TRY(file.write_at(0, {header.data(), header.size()}));
  if (config_.fsync != FsyncPolicy::kNever) {
    SF_TRY(file.sync());
    SF_TRY(sync_dir(dir_));
  }
  return file;
}

base::Result<void> PartitionLog::start_segment(Offset base) {
  const fs::path path = segment_path(base);
  auto file = make_segment_file(path, base);
  if (!file) {
    std::error_code error;
    fs::remove(path, error);  // smaller records may still go into the segment before it
    return base::fail(std::move(file).error());
  }
  file_ = *std::move(file);
  dirty_end_ = false;
  active_ = std::make_shared<Segment>(path, base, base, kHeaderBytes);
  base::MutexLock lock(mutex_);
  segments_.push_back(active_);
  return {};
}

bool PartitionLog::has_room(std::size_t bytes) const {
  return active_->next() == active_->base() || active_->bytes() + bytes <= config_.segment_bytes;
}

/// Appends [first, result) are of living writers and fit into the active segment (or are one).
std::size_t PartitionLog::run_end(const AppendBatch& batch, std::size_t first) const {
  std::size_t bytes = 0;
  std::size_t last = first;
  while (last < batch.appends.size() && !batch.appends[last].writer->dead()) {
    bytes += batch.appends[last].bytes;
    if (last > first && active_->bytes() + bytes > config_.segment_bytes) break;
    ++last;
  }
  return last;
}

void PartitionLog::commit(AppendBatch& batch) {
  std::size_t first = 0;
  while (first < batch.appends.size()) {
    AppendBatch::Append& next = batch.appends[first];
    if (next.writer->dead()) {
      next.result = base::fail(ErrorCode::kClosed, "an earlier delivery of writer {} failed: {}",
                               next.writer->name(), next.writer->error().message);
      ++first;
      continue;
    }
    base::Result<void> done;
    if (!has_room(next.bytes)) done = start_segment(active_->next());
    const std::size_t last = run_end(batch, first);
    if (done) done = append(batch, first, last);
    if (!done) {
      if (!failing_) {
        base::log_error("log {}/{}: {}; {} records were not stored", topic_name(source_.topic),
                        source_.partition, done.error().message, last - first);
      }
      for (std::size_t i = first; i < last; ++i) {
        batch.appends[i].result = base::fail(done.error());
        batch.appends[i].writer->kill(done.error());
      }
    } else if (failing_) {
      base::log_info("log {}/{}: stores records again", topic_name(source_.topic),
                     source_.partition);
    }
    failing_ = !done;
    first = last;
  }
}

base::Result<void> PartitionLog::append(AppendBatch& batch, std::size_t first, std::size_t last) {
  Offset offset = active_->next();
  const auto settled = static_cast<std::uint32_t>(active_->bytes());
  for (std::size_t i = first; i < last; ++i) {
    AppendBatch::Append& append = batch.appends[i];
    seal_frame(batch.frames.data() + append.begin, append.bytes, offset, settled);
    append.result = offset++;
  }
  const std::size_t begin = batch.appends[first].begin;
  const std::size_t end = batch.appends[last - 1].begin + batch.appends[last - 1].bytes;
  return write_frames(std::string_view(batch.frames).substr(begin, end - begin), offset);
}

base::Result<void> PartitionLog::write_frames(std::string_view frames, Offset next) {
  const std::uint64_t durable = active_->bytes();
  if (dirty_end_) {
    SF_TRY(file_.truncate(durable));
    dirty_end_ = false;
  }
  base::Result<void> done = file_.write_at(durable, frames);
  if (done && config_.fsync != FsyncPolicy::kNever) done = file_.sync();
  if (!done) {
    // A part of it may be there; were it left, the next open would take it for stored records.
    dirty_end_ = !file_.truncate(durable);
    return done;
  }
  active_->publish(next, durable + frames.size());
  return {};
}

void PartitionLog::drop_old() {
  if (source_.topic == Topic::kItems || source_.topic == Topic::kUsers) return;
  std::vector<std::shared_ptr<Segment>> dropped;
  {
    base::MutexLock lock(mutex_);
    std::uint64_t bytes = 0;
    for (const auto& segment : segments_) bytes += segment->bytes();
    const auto oldest_kept = fs::file_time_type::clock::now() - config_.retention_age;
    while (segments_.size() > 1) {
      const Segment& oldest = *segments_.front();
      std::error_code error;
      const auto written = fs::last_write_time(oldest.path(), error);
      const bool too_old = !error && written < oldest_kept;
      if (!too_old && bytes - oldest.bytes() < config_.retention_bytes) break;
      bytes -= oldest.bytes();
      dropped.push_back(segments_.front());
      segments_.erase(segments_.begin());
    }
  }
  for (const auto& segment : dropped) {
    std::error_code error;
    fs::remove(segment->path(), error);
    base::log_info("log {}/{}: dropped offsets {} to {} (retention){}", topic_name(source_.topic),
                   source_.partition, segment->base(), segment->next() - 1,
                   error ? ": could not remove the file: " + error.message() : "");
  }
}

EventLog::Bounds PartitionLog::bounds() const {
  base::MutexLock lock(mutex_);
  return {segments_.front()->base(), segments_.back()->next()};
}

std::vector<LogFile> PartitionLog::files() const {
  base::MutexLock lock(mutex_);
  std::vector<LogFile> files;
  for (const auto& segment : segments_) {
    files.push_back({segment->path(), segment->bytes(), segment == segments_.back()});
  }
  return files;
}

base::Result<std::shared_ptr<Segment>> PartitionLog::find(Offset offset) const {
  base::MutexLock lock(mutex_);
  const Offset first = segments_.front()->base();
  const Offset next = segments_.back()->next();
  if (offset < first || offset > next) {
    return base::fail(
        ErrorCode::kCorrupt,
        "{}/{}: offset {} is not in the log, which holds offsets {} to {} (folder {})",
        topic_name(source_.topic), source_.partition, offset, first, next - 1, dir_.string());
  }
  if (offset == next) return nullptr;
  const auto after =
      std::ranges::upper_bound(segments_, offset, std::ranges::less{},
                               [](const std::shared_ptr<Segment>& s) { return s->base(); });
  return *std::prev(after);
}

}  // namespace sirenfeed::ingest::embedded
