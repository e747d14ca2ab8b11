#include "app/rebuild.h"

#include <fcntl.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <set>
#include <utility>

#include "app/backup_files.h"
#include "app/data_use.h"
#include "app/stopped_node.h"
#include "base/log.h"
#include "features/align_examples.h"
#include "features/log_coverage.h"
#include "features/store.h"
#include "ingest/dead_letter.h"
#include "ingest/event_parser.h"
#include "ingest/event_time.h"
#include "model/file_io.h"

namespace sirenfeed::app {
namespace {

namespace fs = std::filesystem;
using base::ErrorCode;
using base::fail;
using ingest::Topic;

constexpr std::chrono::milliseconds kPoll{200};

/// Every retained record of a topic, in the order of each partition.
base::Result<void> read_topic(ingest::EventLog& log, Topic topic,
                              const std::function<void(ingest::LogRecord)>& each) {
  SF_ASSIGN(const ingest::Partition partitions, log.partitions(topic));
  SF_ASSIGN(const auto reader, log.open_reader({.name = "sirenfeed-rebuild"}));
  std::set<ingest::TopicPartition> open;
  for (ingest::Partition p = 0; p < partitions; ++p) {
    SF_ASSIGN(const auto bounds, log.bounds({topic, p}));
    if (bounds.next <= bounds.first) continue;
    SF_TRY(reader->assign({topic, p}, std::nullopt));
    open.insert({topic, p});
  }
  while (!open.empty()) {
    SF_ASSIGN(ingest::PollBatch batch, reader->poll(kPoll));
    if (batch.broker_lost) return fail(ErrorCode::kUnavailable, "no broker answers");
    for (ingest::LogRecord& record : batch.records) each(std::move(record));
    for (const ingest::TopicPartition source : batch.at_end) {
      if (open.erase(source) > 0) SF_TRY(reader->unassign(source));
    }
  }
  return {};
}

using Place = std::pair<ingest::TopicPartition, ingest::Offset>;

/// Records whose dead letter is in the log already.
base::Result<std::set<Place>> read_reported(ingest::EventLog& log) {
  std::set<Place> reported;
  SF_TRY(read_topic(log, Topic::kDeadLetters, [&](const ingest::LogRecord& record) {
    const auto letter = ingest::parse_dead_letter(record.value.value_or(""));
    if (letter) reported.emplace(letter->source, letter->offset);
  }));
  return reported;
}

/// Stands before the state: leaves out what is too old, sends no dead letter again, counts.
class RebuildSink final : public ingest::EventSink {
 public:
  RebuildSink(features::FeatureState& state, std::optional<base::UnixMs> from,
              std::set<Place> reported, std::function<void(std::uint64_t)> progress)
      : state_(state),
        from_(from),
        reported_(std::move(reported)),
        progress_(std::move(progress)) {}

  base::Result<void> apply(std::span<const ingest::InputRecord> records) override {
    if (std::any_of(records.begin(), records.end(),
                    [&](const auto& each) { return skips(each); })) {
      std::vector<ingest::InputRecord> batch(records.begin(), records.end());
      std::uint64_t left_out = 0;
      for (ingest::InputRecord& record : batch) {
        if (!skips(record)) continue;
        const bool event = std::holds_alternative<ingest::EventBody>(record.content);
        left_out += event && record.source.topic != Topic::kRequests ? 1 : 0;
        // Passed, counted as rejected, without a dead letter.
        record.content = ingest::Rejection{ingest::RejectReason::kTooOld, "left out of a rebuild"};
      }
      SF_TRY(state_.apply(batch));
      left_out_ += left_out;
    } else {
      SF_TRY(state_.apply(records));
    }
    applied_ += records.size();
    progress_(applied_);
    return {};
  }
  base::Result<std::optional<ingest::AppliedPosition>> position(
      ingest::TopicPartition source) override {
    return state_.position(source);
  }
  base::Result<void> idle(ingest::Partition /*partition*/) override { return {}; }
  base::Result<void> close_windows(ingest::Partition partition) override {
    return state_.close_windows(partition);
  }
  [[nodiscard]] std::uint64_t left_out() const { return left_out_; }

 private:
  [[nodiscard]] bool skips(const ingest::InputRecord& record) const {
    if (std::holds_alternative<ingest::Rejection>(record.content)) {
      return reported_.contains({record.source, record.offset});
    }
    const bool timed = record.source.topic != Topic::kItems && record.source.topic != Topic::kUsers;
    return from_ && timed && record.time_ms < *from_;
  }

  features::FeatureState& state_;
  const std::optional<base::UnixMs> from_;
  const std::set<Place> reported_;
  const std::function<void(std::uint64_t)> progress_;
  std::uint64_t left_out_ = 0;
  std::uint64_t applied_ = 0;
};

/// What the log no longer has; adds what it has to `total`.
base::Result<std::vector<std::string>> find_missing(ingest::EventLog& log, std::uint64_t& total) {
  std::vector<std::string> missing;
  for (const Topic topic : features::kInputTopics) {
    SF_ASSIGN(const ingest::Partition partitions, log.partitions(topic));
    for (ingest::Partition p = 0; p < partitions; ++p) {
      SF_ASSIGN(const auto bounds, log.bounds({topic, p}));
      total += static_cast<std::uint64_t>(bounds.next - bounds.first);
      if (bounds.first == 0) continue;
      missing.push_back(fmt::format(
          "{}/{}: offsets 0 to {} are no longer in the log{}", ingest::topic_name(topic), p,
          bounds.first - 1,
          topic == Topic::kRequests ? ": impressions that name them get recomputed features" : ""));
    }
  }
  return missing;
}

/// The new state in the old one's place, in one step where the file system can. Where it cannot, no
/// node starts between the two (data_use.h).
base::Result<void> put_in_place(const std::string& made, const std::string& place) {
  SF_TRY(sync_folders(made));
  const std::string old = place + ".replaced";
  std::error_code error;
  const bool exchanged = fs::exists(place) && renameat2(AT_FDCWD, made.c_str(), AT_FDCWD,
                                                        place.c_str(), RENAME_EXCHANGE) == 0;
  if (!exchanged) {
    if (fs::exists(place)) {
      fs::remove_all(old, error);
      fs::rename(place, old, error);
    }
    if (!error) fs::rename(made, place, error);
    if (error) {
      return fail(ErrorCode::kStorage, "{}: cannot be put in the place of {}: {}", made, place,
                  error.message());
    }
  }
  SF_TRY(model::sync_folder(fs::absolute(place).parent_path().string()));
  for (const std::string& left : {made, old}) fs::remove_all(left, error);
  return {};
}

}  // namespace

base::Result<std::vector<features::Tombstone>> read_tombstones(ingest::EventLog& log,
                                                               const ingest::ParserConfig& config,
                                                               const base::Clock& clock) {
  std::map<std::pair<bool, std::string>, base::UnixMs> newest;
  ingest::EventParser parser(config, clock);
  for (const Topic topic : {Topic::kUsers, Topic::kItems}) {
    SF_ASSIGN(const ingest::Partition partitions, log.partitions(topic));
    SF_TRY(read_topic(log, topic, [&](ingest::LogRecord record) {
      const ingest::InputRecord parsed = parser.parse(std::move(record), partitions);
      const auto* body = std::get_if<ingest::EventBody>(&parsed.content);
      if (body == nullptr) return;
      const auto* user = std::get_if<ingest::UserUpdate>(body);
      const auto* item = std::get_if<ingest::ItemUpdate>(body);
      const bool erased = user != nullptr && user->erase;
      if (!erased && (item == nullptr || !item->deleted)) return;
      const auto at =
          newest.try_emplace({erased, erased ? user->user_id : item->item_id}, parsed.time_ms);
      at.first->second = std::max(at.first->second, parsed.time_ms);
    }));
  }
  std::vector<features::Tombstone> tombstones;
  for (const auto& [key, time] : newest) tombstones.push_back({key.first, key.second, time});
  return tombstones;
}

base::Result<RebuildReport> rebuild_state(const Settings& settings, const RebuildOptions& options,
                                          const RebuildProgress& progress) {
  SF_ASSIGN(const DataUse use, DataUse::alone(settings.data_dir));
  // Of a process that does not know of DATA/LOCK.
  SF_TRY(features::Store::check_unused(settings.state_dir()));
  const std::string made = settings.state_dir() + ".rebuilding";
  std::error_code error;
  fs::remove_all(made, error);  // of a rebuild that did not end
  RebuildReport report;
  SF_ASSIGN(const auto node, StoppedNode::open_for_rebuild(settings, use, made));
  SF_TRY(features::align_examples(node->state(), node->log()));
  SF_ASSIGN(const auto tombstones,
            read_tombstones(node->log(), settings.ingest.parser, node->clock()));
  SF_TRY(node->state().seed_tombstones(tombstones));
  report.tombstones = tombstones.size();
  std::uint64_t total = 0;
  SF_ASSIGN(report.missing, find_missing(node->log(), total));
  SF_ASSIGN(auto reported, read_reported(node->log()));

  RebuildSink sink(node->state(), options.from, std::move(reported),
                   [&](std::uint64_t records) { progress(records, total); });
  ingest::IngestConfig config = settings.ingest;
  config.group.reset();
  config.member.reset();
  {
    ingest::IngestLoop loop(config, node->loop_parts(sink));
    SF_TRY(loop.run_until_end(ingest::IngestLoop::AtEnd::kLeaveWindowsOpen));
  }
  SF_ASSIGN(report.counts, node->state().conservation());
  report.left_out = sink.left_out();
  if (report.left_out > 0) {
    report.missing.push_back(fmt::format("{} impressions and clicks before {} were left out",
                                         report.left_out, ingest::format_iso8601(*options.from)));
  }
  SF_TRY(node->state().sync());
  node->close();
  SF_TRY(put_in_place(made, settings.state_dir()));
  return report;
}

}  // namespace sirenfeed::app
