#include "ingest/publish_resume.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <boost/json.hpp>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>
#include <utility>

#include "base/hash.h"

namespace sirenfeed::ingest {
namespace {

namespace json = boost::json;
using base::ErrorCode;
using std::chrono::milliseconds;

constexpr milliseconds kPollWait{200};
constexpr std::chrono::seconds kQuietMax{30};

std::string place(TopicPartition source) {
  return fmt::format("{}/{}", topic_name(source.topic), source.partition);
}

std::optional<TopicPartition> parse_place(std::string_view text) {
  const std::size_t slash = text.find('/');
  if (slash == std::string_view::npos) return std::nullopt;
  const auto topic = topic_from_name(text.substr(0, slash));
  Partition partition = -1;
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data() + slash + 1, end, partition);
  if (!topic || read.ec != std::errc() || read.ptr != end) return std::nullopt;
  return TopicPartition{*topic, partition};
}

std::uint64_t fingerprint(TopicPartition source, std::string_view key,
                          const std::optional<std::string>& value) {
  // The length keeps key and value apart, the mark tells null from empty.
  const std::string head =
      fmt::format("{} {} {}:{}", place(source), value ? "value" : "null", key.size(), key);
  return base::xxh3_64(value ? head + *value : head);
}

/// False: not a resume file.
bool read_point(const json::object& object, ResumePoint& point) {
  boost::system::error_code error;
  const json::value* const count = object.if_contains("acknowledged");
  if (count == nullptr) return false;
  point.acknowledged = count->to_number<std::uint64_t>(error);
  if (error) return false;
  const json::value* const offsets = object.if_contains("offsets");
  if (offsets == nullptr) return true;
  if (!offsets->is_object()) return false;
  for (const auto& [name, value] : offsets->get_object()) {
    const auto source = parse_place(name);
    const auto offset = value.to_number<Offset>(error);
    if (!source || error) return false;
    point.offsets[*source] = offset;
  }
  return true;
}

}  // namespace

base::Result<std::optional<ResumePoint>> ResumeFile::load() const {
  if (!path_ || !std::filesystem::exists(*path_)) return std::nullopt;
  std::ifstream file(*path_, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  boost::system::error_code error;
  const json::value root = json::parse(text.str(), error);
  const json::object* object = error ? nullptr : root.if_object();
  const json::value* identity = object == nullptr ? nullptr : object->if_contains("identity");
  ResumePoint point;
  if (identity == nullptr || !identity->is_string() || !read_point(*object, point)) {
    return base::fail(ErrorCode::kDecode, "{}: expected a resume file of publish", *path_);
  }
  if (identity->get_string() != identity_) {
    return base::fail(ErrorCode::kInvalidArgument,
                      "{}: is of another input or target ({}), expected {}", *path_,
                      std::string_view(identity->get_string()), identity_);
  }
  return point;
}

base::Result<void> ResumeFile::save(const ResumePoint& point) const {
  if (!path_) return {};
  json::object offsets;
  for (const auto& [source, offset] : point.offsets) offsets[place(source)] = offset;
  const std::string text = json::serialize(json::object{{"identity", identity_},
                                                        {"acknowledged", point.acknowledged},
                                                        {"offsets", std::move(offsets)}});
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

void ResumeFile::remove() const {
  if (path_) std::remove(path_->c_str());
}

base::Result<std::map<TopicPartition, Offset>> log_ends(EventLog& log) {
  std::map<TopicPartition, Offset> ends;
  for (const Topic topic : {Topic::kItems, Topic::kUsers, Topic::kImpressions, Topic::kClicks}) {
    SF_ASSIGN(const Partition partitions, log.partitions(topic));
    for (Partition partition = 0; partition < partitions; ++partition) {
      SF_ASSIGN(const EventLog::Bounds bounds, log.bounds({topic, partition}));
      ends[{topic, partition}] = bounds.next;
    }
  }
  return ends;
}

base::Result<FoundRecords> FoundRecords::read(EventLog& log, const ResumePoint& point) {
  FoundRecords found;
  SF_ASSIGN(const auto ends, log_ends(log));
  SF_ASSIGN(const auto reader, log.open_reader({.name = "sirenfeed-publish"}));
  std::map<TopicPartition, Offset> open;  // with the offset to read up to
  for (const auto& [source, from] : point.offsets) {
    const auto end = ends.find(source);
    if (end == ends.end() || end->second < from) {
      return base::fail(ErrorCode::kInvalidArgument,
                        "{}: the resume file counts records up to offset {}, the log has {}: it is "
                        "another log, remove the resume file to begin anew",
                        place(source), from, end == ends.end() ? 0 : end->second);
    }
    if (end->second == from) continue;
    SF_ASSIGN(const EventLog::Bounds bounds, log.bounds(source));
    SF_TRY(reader->assign(source, std::max(from, bounds.first)));
    open[source] = end->second;
  }
  auto heard_at = std::chrono::steady_clock::now();
  while (!open.empty()) {
    SF_ASSIGN(const PollBatch batch, reader->poll(kPollWait));
    const auto now = std::chrono::steady_clock::now();
    if (!batch.records.empty() || !batch.at_end.empty()) heard_at = now;
    if (now - heard_at > kQuietMax) {
      return base::fail(ErrorCode::kUnavailable, "{}: nothing was read for {} s",
                        place(open.begin()->first), kQuietMax.count());
    }
    for (const LogRecord& record : batch.records) found.add(record);
    for (const TopicPartition source : batch.at_end) open.erase(source);
    if (found.size_ > kRecordsMax) {
      return base::fail(ErrorCode::kTooLarge,
                        "more than {} records lie in the log behind the resume file", kRecordsMax);
    }
  }
  return found;
}

void FoundRecords::add(const LogRecord& record) {
  const std::uint64_t hash = fingerprint(record.source, record.key.value_or(""), record.value);
  offsets_[hash].push_back(record.offset);
  ++size_;
}

std::optional<Offset> FoundRecords::take(TopicPartition target, const ReplayRecord& record) {
  if (size_ == 0) return std::nullopt;
  const auto found = offsets_.find(fingerprint(target, record.key, record.value));
  if (found == offsets_.end()) return std::nullopt;
  const Offset offset = found->second.front();
  found->second.pop_front();
  if (found->second.empty()) offsets_.erase(found);
  --size_;
  return offset;
}

}  // namespace sirenfeed::ingest
