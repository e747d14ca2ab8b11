#include "ingest/ingest_inputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "base/hash.h"
#include "base/log.h"

namespace sirenfeed::ingest {
namespace {

using base::ErrorCode;

std::vector<Topic> user_topics(const IngestConfig& config) {
  std::vector<Topic> topics = {Topic::kUsers, Topic::kImpressions, Topic::kClicks};
  if (config.requests) topics.push_back(Topic::kRequests);
  return topics;
}

std::string name_of(TopicPartition source) {
  return fmt::format("{}/{}", topic_name(source.topic), source.partition);
}

/// Where the log may remove single records, so that a missing one proves nothing.
bool compacted(Topic topic) { return topic == Topic::kItems || topic == Topic::kUsers; }

}  // namespace

IngestInputs::IngestInputs(const IngestConfig& config, const Parts& parts, bool use_group)
    : config_(config), parts_(parts), use_group_(use_group), topics_(user_topics(config)) {}

IngestInputs::~IngestInputs() = default;

base::Result<Partition> IngestInputs::count_partitions() {
  Partition count = 0;
  std::string counts;
  bool equal = true;
  for (const Topic topic : topics_) {
    SF_ASSIGN(const Partition partitions, parts_.log.partitions(topic));
    if (count != 0 && partitions != count) equal = false;
    count = partitions;
    counts += fmt::format("{}{} has {}", counts.empty() ? "" : ", ", topic_name(topic), partitions);
  }
  if (equal) return count;
  return base::fail(ErrorCode::kCorrupt, "topics with users need the same number of partitions: {}",
                    counts);
}

base::Result<void> IngestInputs::open() {
  SF_ASSIGN(partitions_, count_partitions());
  SF_ASSIGN(const Partition item_partitions, parts_.log.partitions(Topic::kItems));
  ReaderOptions options;
  options.name = config_.name;
  if (use_group_) {
    options.group = config_.group;
    options.member = config_.member;
    options.listener.on_assigned = [this](auto given) { assign_partitions(given); };
    options.listener.on_revoked = [this](auto taken) { revoke_partitions(taken); };
    ReaderOptions items;
    items.name = config_.name + "-items";
    SF_ASSIGN(items_reader_, parts_.log.open_reader(std::move(items)));
  }
  SF_ASSIGN(reader_, parts_.log.open_reader(std::move(options)));
  for (Partition p = 0; p < item_partitions; ++p) due_.insert({Topic::kItems, p});
  if (!use_group_) {
    for (Partition p = 0; p < partitions_; ++p) {
      for (const Topic topic : topics_) due_.insert({topic, p});
    }
    assigned_ = true;
  }
  due_at_ = parts_.steady.now();
  assign_due();
  return {};
}

LogReader& IngestInputs::reader_of(TopicPartition source) const {
  return items_reader_ && source.topic == Topic::kItems ? *items_reader_ : *reader_;
}

void IngestInputs::assign_partitions(std::span<const Partition> partitions) {
  assigned_ = true;
  for (const Partition p : partitions) {
    // Never read at all: check_partitions() follows, and says why.
    if (p >= partitions_) continue;
    for (const Topic topic : topics_) {
      stopped_.erase({topic, p});
      due_.insert({topic, p});
    }
    base::log_info("partition {} was assigned to this node", p);
  }
  due_at_ = parts_.steady.now();
  assign_due();
}

void IngestInputs::check_partitions(Partition now) {
  if (partitions_ == 0 || now <= partitions_) return;
  std::set<Partition> read;
  for (const auto& [source, input] : inputs_) {
    if (source.topic != Topic::kItems) read.insert(source.partition);
  }
  for (const TopicPartition source : due_) {
    if (source.topic != Topic::kItems) read.insert(source.partition);
  }
  for (const Partition p : read) {
    stop({Topic::kImpressions, p}, ErrorCode::kCorrupt,
         fmt::format("the topics have {} partitions, {} at the start: users have moved", now,
                     partitions_));
  }
}

void IngestInputs::revoke_partitions(std::span<const Partition> partitions) {
  for (const Partition p : partitions) {
    for (const Topic topic : topics_) {
      due_.erase({topic, p});
      stopped_.erase({topic, p});
      remove({topic, p});
    }
    base::log_info("partition {} was taken from this node", p);
  }
}

void IngestInputs::assign_due() {
  if (due_.empty() || parts_.steady.now() < due_at_) return;
  const std::set<TopicPartition> due = std::exchange(due_, {});
  assign_error_.reset();
  for (const TopicPartition source : due) {
    const auto assigned = assign(source);
    if (assigned) continue;
    base::log_warning("{} cannot be read yet, trying again: {}", name_of(source),
                      assigned.error().message);
    assign_error_ = assigned.error();
    due_.insert(source);
  }
  due_at_ = parts_.steady.now() + config_.retry_wait_max;
}

base::Result<void> IngestInputs::assign(TopicPartition source) {
  SF_ASSIGN(auto position, parts_.sink.position(source));
  IngestInput input;
  input.reader = &reader_of(source);
  input.verify = position;
  if (position) input.next_read = input.next_apply = position->offset + 1;
  // The last applied record comes first, to be compared.
  SF_TRY(input.reader->assign(source, position ? std::optional(position->offset) : std::nullopt));
  inputs_[source] = input;
  parts_.merge.add(source);
  return {};
}

base::Result<void> IngestInputs::assign_at(TopicPartition source, std::optional<Offset> offset) {
  IngestInput& input = inputs_.at(source);
  input.verify.reset();
  input.at_end = false;
  return input.reader->assign(source, offset);
}

void IngestInputs::remove(TopicPartition source) {
  const auto found = inputs_.find(source);
  if (found == inputs_.end()) return;
  const auto unassigned = found->second.reader->unassign(source);
  if (!unassigned) {
    base::log_debug("{}: unassign: {}", name_of(source), unassigned.error().message);
  }
  parts_.merge.remove(source);
  inputs_.erase(found);
}

void IngestInputs::stop(TopicPartition source, base::ErrorCode code, std::string_view why) {
  const std::string message = fmt::format(
      "{}: {}; this partition is stopped, run `sirenfeed rebuild`", name_of(source), why);
  base::log_error("{}", message);
  stopped_.insert_or_assign(source, base::Error{code, message});
  if (source.topic == Topic::kItems) {
    remove(source);
    return;
  }
  for (const Topic topic : topics_) {
    due_.erase({topic, source.partition});
    remove({topic, source.partition});
  }
}

base::Result<void> IngestInputs::poll(std::chrono::milliseconds timeout) {
  assign_due();
  SF_ASSIGN(const bool brought, read(*reader_, timeout));
  // Before the group has given anything, items would be merged with nothing, up to the newest.
  if (!items_reader_ || !assigned_) return {};
  // A reader names ends again only with records of its own; those of the other it does not see.
  if (brought) items_reader_->confirm_ends();
  const bool lost = broker_lost_;
  SF_ASSIGN(const bool items_brought, read(*items_reader_, std::chrono::milliseconds(0)));
  if (items_brought) reader_->confirm_ends();
  broker_lost_ = broker_lost_ || lost;
  return {};
}

/// Did it bring records?
base::Result<bool> IngestInputs::read(LogReader& reader, std::chrono::milliseconds timeout) {
  auto batch = reader.poll(timeout);
  if (!batch) {
    SF_TRY(partition_failed(reader, batch.error()));
    return false;
  }
  broker_lost_ = batch->broker_lost;
  for (LogRecord& record : batch->records) take(std::move(record));
  for (const TopicPartition source : batch->at_end) ended(source);
  return !batch->records.empty();
}

base::Result<void> IngestInputs::partition_failed(const LogReader& reader,
                                                  const base::Error& error) {
  if (error.code != ErrorCode::kCorrupt) return base::fail(error);
  for (const auto& [source, input] : inputs_) {
    if (input.reader != &reader || !names(error.message, source)) continue;
    if (input.verify) {
      position_is_gone(TopicPartition(source), AppliedPosition(*input.verify));
    } else {
      stop(TopicPartition(source), ErrorCode::kCorrupt, error.message);
    }
    return {};
  }
  return base::fail(error);
}

/// The last applied record cannot be read. That is well as long as the next one still can.
void IngestInputs::position_is_gone(TopicPartition source, const AppliedPosition& position) {
  const Offset next = position.offset + 1;
  const auto bounds = parts_.log.bounds(source);
  if (!bounds && bounds.error().code == ErrorCode::kCorrupt) {
    return stop(source, ErrorCode::kCorrupt, bounds.error().message);
  }
  if (!bounds) {
    base::log_warning("{}: {}", name_of(source), bounds.error().message);
    remove(source);
    due_.insert(source);
    due_at_ = parts_.steady.now() + config_.retry_wait_max;
    return;
  }
  if (next < bounds->first || next > bounds->next) {
    return stop(source, ErrorCode::kCorrupt,
                fmt::format("the state has applied offset {}, the log holds {} up to, and without, "
                            "{}",
                            position.offset, bounds->first, bounds->next));
  }
  base::log_warning("{}: the last applied record (offset {}) is no longer in the log",
                    name_of(source), position.offset);
  const auto assigned = assign_at(source, next);
  if (!assigned) stop(source, assigned.error().code, assigned.error().message);
}

bool IngestInputs::verified(TopicPartition source, IngestInput& input, const LogRecord& record) {
  const AppliedPosition position = *std::exchange(input.verify, std::nullopt);
  if (record.offset == position.offset) {
    const std::uint64_t hash = base::xxh3_64(record.value ? std::string_view(*record.value) : "");
    if (hash != position.hash) {
      stop(source, ErrorCode::kCorrupt,
           fmt::format("the record at offset {} is not the one that the state has applied there "
                       "(its hash is {:016x}, expected {:016x})",
                       record.offset, hash, position.hash));
    }
    return false;  // applied before
  }
  if (record.offset > position.offset + 1 && !compacted(source.topic)) {
    stop(source, ErrorCode::kCorrupt,
         fmt::format("the state has applied offset {}, the log goes on at {}", position.offset,
                     record.offset));
    return false;
  }
  return true;
}

void IngestInputs::take(LogRecord record) {
  const TopicPartition source = record.source;
  const auto found = inputs_.find(source);
  if (found == inputs_.end()) return;  // taken away or stopped earlier in this batch
  IngestInput& input = found->second;
  input.at_end = false;
  if (input.verify && !verified(source, input, record)) return;
  if (!input.next_apply) input.next_apply = record.offset;
  input.next_read = record.offset + 1;
  InputRecord parsed = parts_.parser.parse(std::move(record), partitions_);
  parts_.probe.record_read(parsed);
  parts_.merge.push(std::move(parsed));
}

void IngestInputs::ended(TopicPartition source) {
  const auto found = inputs_.find(source);
  if (found == inputs_.end()) return;
  if (found->second.verify) {
    // The end came before the record that should have been there.
    return position_is_gone(source, AppliedPosition(*found->second.verify));
  }
  found->second.at_end = true;
  found->second.ended_once = true;
  parts_.merge.at_end(source);
}

base::Result<void> IngestInputs::regulate() {
  for (auto& [source, input] : inputs_) {
    if (!input.paused && parts_.merge.full(source)) {
      SF_TRY(input.reader->pause(source));
      input.paused = true;
    } else if (input.paused && parts_.merge.drained(source)) {
      SF_TRY(input.reader->resume(source));
      input.paused = false;
    }
  }
  return {};
}

void IngestInputs::applied(std::span<const InputRecord> records) {
  std::set<TopicPartition> moved;
  for (const InputRecord& record : records) {
    const auto found = inputs_.find(record.source);
    if (found == inputs_.end()) continue;
    found->second.next_apply = record.offset + 1;
    moved.insert(record.source);
  }
  for (const TopicPartition source : moved) {
    const IngestInput& input = inputs_.at(source);
    input.reader->report_position(source, *input.next_apply);
  }
}

bool IngestInputs::caught_up() const {
  return assigned_ && due_.empty() &&
         std::all_of(inputs_.begin(), inputs_.end(),
                     [](const auto& entry) { return entry.second.ended_once; });
}

bool IngestInputs::at_end() const {
  return assigned_ && due_.empty() &&
         std::all_of(inputs_.begin(), inputs_.end(),
                     [](const auto& entry) { return entry.second.at_end; });
}

std::vector<Partition> IngestInputs::partitions() const {
  std::vector<Partition> out;
  for (const auto& [source, input] : inputs_) {
    if (source.topic == Topic::kImpressions) out.push_back(source.partition);
  }
  return out;
}

bool IngestInputs::idle(Partition partition) const {
  if (broker_lost_ || !due_.empty()) return false;
  return std::all_of(inputs_.begin(), inputs_.end(), [&](const auto& entry) {
    const auto& [source, input] = entry;
    return (source.topic != Topic::kItems && source.partition != partition) || input.idle();
  });
}

}  // namespace sirenfeed::ingest
