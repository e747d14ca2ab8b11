#include "features/applier.h"

#include <algorithm>

#include "base/log.h"
#include "features/encode.h"
#include "ingest/dead_letter.h"

namespace sirenfeed::features {
namespace {

std::vector<ActionType> intern_all(ActionTypes& types, const std::vector<std::string>& names) {
  std::vector<ActionType> result;
  for (const std::string& name : names) result.push_back(types.intern(name));
  return result;
}
std::vector<ActionType> task_types(ActionTypes& types, const ExampleConfig& config) {
  std::vector<ActionType> result;
  for (const TaskConfig& task : config.tasks) result.push_back(types.intern(task.action));
  return result;
}

// The id families share one map of the batch: the letter keeps them apart.
IdHash with_letter(IdHash id, char letter) {
  id.high ^= static_cast<std::uint64_t>(letter) << 56U;
  return id;
}

std::string encode_sequence(std::uint64_t sequence) {
  std::string value;
  Encoder(value).varint(sequence);
  return value;
}
base::Result<std::uint64_t> decode_sequence(std::string_view value) {
  Decoder in(value);
  const std::uint64_t sequence = in.varint();
  if (in.finished()) return sequence;
  return base::fail(base::ErrorCode::kCorrupt,
                    "a stored sequence of dead letters cannot be decoded; `sirenfeed rebuild` "
                    "makes the state anew");
}

}  // namespace

Applier::Applier(const ApplierParts& parts)
    : config_(parts.config),
      probe_(parts.probe),
      wiring_(parts.wiring),
      store_(parts.store),
      item_side_(parts.item_side),
      types_(parts.types),
      index_(parts.index),
      click_(types_.intern(config_.context.click_action)),
      long_view_(types_.intern(config_.context.long_view_action)),
      builder_(config_, item_side_, parts.computer,
               ActionBits(intern_all(types_, config_.example.actions)),
               task_types(types_, config_.example)),
      windows_(config_.join, types_, task_types(types_, config_.example)),
      users_(store_, config_.store.user_cache_bytes),
      removals_(parts.removals) {}

base::Result<void> Applier::load() {
  loaded_ = false;
  SF_TRY(load_newest());
  partitions_.clear();
  positions_.clear();
  dead_letter_sequence_.clear();
  for (ingest::Partition p = 0; p < config_.partitions; ++p) {
    SF_TRY(load_partition(partition(p)));
    for (const auto topic : {ingest::Topic::kUsers, ingest::Topic::kRequests,
                             ingest::Topic::kImpressions, ingest::Topic::kClicks}) {
      SF_TRY(position({topic, p}));
    }
  }
  std::vector<ingest::TopicPartition> items;
  SF_TRY(store_.scan(
      Family::kState, node_prefix(kItemsPositionLetter),
      [&](std::string_view key, std::string_view) {
        const std::uint32_t number = read_be32(key.data() + 2);
        items.push_back({ingest::Topic::kItems, static_cast<ingest::Partition>(number)});
        return true;
      }));
  for (const ingest::TopicPartition source : items) SF_TRY(position(source));
  loaded_ = true;
  report_state();
  return {};
}

// After a failed write: the database anew, and nothing in memory that was read before.
base::Result<void> Applier::ensure_ready() {
  SF_TRY(store_.ensure_writable());
  if (store_.generation() != generation_) {
    item_side_.clear();
    users_.clear();
    loaded_ = false;
  }
  if (!loaded_) SF_TRY(load());
  generation_ = store_.generation();
  return {};
}

// A clock of events stands where it stood before the restart, not at its beginning.
base::Result<void> Applier::load_newest() {
  newest_ms_ = INT64_MIN;
  SF_ASSIGN(const auto value, store_.get(Family::kState, node_prefix(kNewestLetter)));
  if (value) {
    Decoder in(*value);
    newest_ms_ = in.zigzag();
    if (!in.finished()) {
      return base::fail(base::ErrorCode::kCorrupt,
                        "the stored greatest event time cannot be decoded; `sirenfeed rebuild` "
                        "makes the state anew");
    }
  }
  if (wiring_.event_clock != nullptr) wiring_.event_clock->advance_to(newest_ms_);
  return {};
}

PartitionState& Applier::partition(ingest::Partition number) {
  const auto [it, made] = partitions_.try_emplace(number);
  if (made) {
    it->second.partition = number;
    it->second.pending.set_stages(windows_.stages().size());
  }
  return it->second;
}

base::Result<void> Applier::load_partition(PartitionState& state) {
  const ingest::Partition p = state.partition;
  SF_ASSIGN(const auto meta, store_.get(Family::kState, partition_prefix(p, kMetaLetter)));
  if (meta) SF_TRY(state.decode_meta(*meta));
  std::optional<base::Error> error;
  SF_TRY(store_.scan(Family::kState, partition_prefix(p, kLabelsLetter),
                     [&](std::string_view key, std::string_view value) {
                       auto pending = decode_labels(value);
                       if (!pending) {
                         error = pending.error();
                         return false;
                       }
                       std::tie(pending->time_ms, pending->offset) = pending_place(key);
                       pending->stage = windows_.stage_of(pending->left);
                       pending->complete = pending->left == windows_.all_tasks();
                       state.pending.add(*std::move(pending));
                       return true;
                     }));
  if (error) return base::fail(*std::move(error));
  if (!state.counted) state.impressions.accepted = state.pending.waiting();
  SF_TRY(load_retained(state));
  SF_TRY(load_requests(state));
  const base::SteadyTime now = (wiring_.steady != nullptr ? *wiring_.steady : steady_clock_).now();
  SF_TRY(store_.scan(Family::kState, partition_prefix(p, kHeldLetter),
                     [&](std::string_view, std::string_view value) {
                       auto record = decode_held(value);
                       if (!record) {
                         error = record.error();
                         return false;
                       }
                       state.held.push_back({*std::move(record), now, state.applied});
                       return true;
                     }));
  if (error) return base::fail(*std::move(error));
  return {};
}

base::Result<std::optional<ingest::AppliedPosition>> Applier::position(
    ingest::TopicPartition source) {
  auto it = positions_.find(source);
  if (it == positions_.end()) {
    SF_ASSIGN(const auto value, store_.get(Family::kState, position_key(source)));
    InputPosition position;
    if (value) {
      SF_ASSIGN(position, InputPosition::decode(*value));
    }
    // Known before any record of the partition can be rejected.
    SF_TRY(load_dead_letter_sequence(source.partition));
    it = positions_.emplace(source, std::move(position)).first;
  }
  return it->second.applied;
}

base::Result<void> Applier::load_dead_letter_sequence(ingest::Partition number) {
  if (dead_letter_sequence_.contains(number)) return {};
  SF_ASSIGN(const auto value,
            store_.get(Family::kState, partition_prefix(number, kDeadLetterSequenceLetter)));
  std::uint64_t sequence = 0;
  if (value) {
    SF_ASSIGN(sequence, decode_sequence(*value));
  }
  dead_letter_sequence_.emplace(number, sequence);
  return {};
}

base::Result<void> Applier::apply(std::span<const ingest::InputRecord> records) {
  SF_TRY(ensure_ready());
  for (const ingest::InputRecord& record : records) {
    if (auto done = apply_one(record); !done) return rollback(std::move(done).error());
  }
  for (auto& [number, state] : partitions_) {
    if (state.held.empty()) continue;
    if (auto done = expire_held(state, /*all=*/false); !done) {
      return rollback(std::move(done).error());
    }
  }
  return commit();
}

base::Result<void> Applier::apply_one(const ingest::InputRecord& record) {
  SF_ASSIGN(const auto applied, position(record.source));
  if (applied && record.offset <= applied->offset) {
    ++counts_.replayed;
    return {};
  }
  SF_ASSIGN(const Outcome outcome, dispatch(record));
  InputPosition& position = positions_.at(record.source);
  position.applied = {record.offset, record.time_ms, record.hash};
  position.dirty = true;
  if (!std::holds_alternative<Held>(outcome)) settle(record, outcome);
  return {};
}

base::Result<Applier::Outcome> Applier::dispatch(const ingest::InputRecord& record) {
  if (const auto* rejection = std::get_if<ingest::Rejection>(&record.content)) {
    return Outcome(*rejection);
  }
  const auto& body = std::get<ingest::EventBody>(record.content);
  PartitionState& state =
      partition(record.source.topic == ingest::Topic::kItems ? 0 : record.source.partition);
  if (const auto* event = std::get_if<ingest::ItemUpdate>(&body)) return apply_item(record, *event);
  if (record.time_ms < state.merged_ms) ++counts_.out_of_order;
  if (const auto* event = std::get_if<ingest::UserUpdate>(&body)) {
    return apply_user(record, *event);
  }
  if (const auto* event = std::get_if<ingest::ServedRequest>(&body)) {
    return apply_request(record, *event);
  }
  if (jumps(state, record.time_ms)) {
    hold(state, record);
    SF_TRY(release_confirmed(state));
    return Outcome(Held{});
  }
  ++state.applied;
  return apply_timed(state, record);
}

// An impression or an action whose time is believed.
base::Result<Applier::Outcome> Applier::apply_timed(PartitionState& state,
                                                    const ingest::InputRecord& record) {
  const auto& body = std::get<ingest::EventBody>(record.content);
  state.merged_ms = std::max(state.merged_ms, record.time_ms);
  if (const auto* event = std::get_if<ingest::Impression>(&body)) {
    return apply_impression(record, *event);
  }
  return apply_action(record, std::get<ingest::Action>(body));
}

// Counts what became of a record, once it is known.
void Applier::settle(const ingest::InputRecord& record, const Outcome& outcome) {
  InputPosition& position = positions_.at(record.source);
  position.dirty = true;
  ++counts_.in;
  ++position.counts.in;
  if (std::holds_alternative<Applied>(outcome)) {
    ++counts_.applied;
    ++position.counts.applied;
    move_clock(record);
  } else if (std::holds_alternative<Duplicate>(outcome)) {
    ++counts_.duplicate;
    ++position.counts.duplicate;
  } else if (const auto* rejection = std::get_if<ingest::Rejection>(&outcome)) {
    ++position.counts.rejected;
    ++counts_.rejected.at(static_cast<std::size_t>(rejection->reason));
    write_dead_letter(record, *rejection);
  }
}

// A wrong date of an impression or action is held before it comes here. Nothing holds the other
// inputs, so theirs must not move the clock of everybody: not by a jump, nor by many small steps.
// Once there is an impression or an action, they move it at most event_jump_max beyond the newest
// of these; before that only to a time that the wall clock has seen.
void Applier::move_clock(const ingest::InputRecord& record) {
  const ingest::Topic topic = record.source.topic;
  const bool timed = topic == ingest::Topic::kImpressions || topic == ingest::Topic::kClicks;
  if (!timed) {
    std::optional<base::UnixMs> newest;
    for (const auto& [number, state] : partitions_) newest = std::max(newest, state.newest_ms);
    const base::UnixMs limit = newest.value_or(wall_clock_.now_ms());
    if (record.time_ms - config_.join.event_jump_max_ms > limit) return;
  }
  counts_.newest_ms = std::max(counts_.newest_ms, record.time_ms);
}

void Applier::write_dead_letter(const ingest::InputRecord& record,
                                const ingest::Rejection& rejection) {
  const auto reason = rejection.reason;
  if (reason == ingest::RejectReason::kTombstone || reason == ingest::RejectReason::kTooOld) return;
  base::log_warning("rejected {}/{} offset {}: {}: {}", ingest::topic_name(record.source.topic),
                    record.source.partition, record.offset, ingest::reject_reason_name(reason),
                    rejection.detail);
  if (!config_.outbox) return;
  const ingest::Partition p = record.source.partition;
  const std::uint64_t sequence = ++dead_letter_sequence_.at(p);
  dirty_dead_letters_.insert(p);
  std::string json = ingest::dead_letter_json(ingest::dead_letter_of(record, rejection));
  put_outbox(
      {ingest::Topic::kDeadLetters, p}, sequence,
      {record.log_time_ms,
       fmt::format("{}/{}/{}", ingest::topic_name(record.source.topic), p, record.offset), json});
  batch_dead_letters_.push_back({outbox_key(p, kDeadLettersLetter, sequence), std::move(json)});
}

void Applier::put_outbox(OutboxStream stream, std::uint64_t sequence, const OutboxValue& value) {
  const char letter =
      stream.topic == ingest::Topic::kExamples ? kExamplesLetter : kDeadLettersLetter;
  batch_.put(Family::kOutbox, outbox_key(stream.partition, letter, sequence), value.encode());
  batch_outbox_[stream] = sequence;
  ++counts_.outbox;
}

base::UnixMs Applier::watermark(const PartitionState& state) const {
  return state.newest_ms ? *state.newest_ms - config_.join.lateness_max_ms : INT64_MIN / 2;
}
base::UnixMs Applier::tombstone_floor() const {
  base::UnixMs oldest = INT64_MAX;
  for (const auto& [number, state] : partitions_) {
    // A partition without a watermark holds nothing yet: it must not keep what the others drop.
    if (state.newest_ms) oldest = std::min(oldest, watermark(state));
  }
  return oldest == INT64_MAX ? INT64_MIN : oldest - config_.join.tombstone_age_max_ms;
}
CatalogItemPtr Applier::remembered_item(Key hash) const {
  CatalogItemPtr item = item_side_.item(hash);
  const bool gone = item != nullptr && !item->known && item->forgotten(tombstone_floor());
  return gone ? nullptr : item;
}
bool Applier::too_old(const PartitionState& state, base::UnixMs time) const {
  return time < watermark(state) - config_.join.dedup_horizon_ms;
}

void Applier::count(CachedUser& user, const Counted& counted) {
  const ExposureKeys& keys = counted.keys;
  const base::UnixMs t = counted.time_ms;
  const Count what = counted.what;
  item_side_.add({CounterKind::kGlobal, 0, 0}, t, what);
  item_side_.add({CounterKind::kItem, keys.item, 0}, t, what);
  item_side_.add({CounterKind::kAuthor, keys.author, 0}, t, what);
  item_side_.add({CounterKind::kTag, keys.tag, 0}, t, what);
  item_side_.add({CounterKind::kSurface, keys.surface, 0}, t, what);
  item_side_.add({CounterKind::kItemSurface, keys.item, keys.surface}, t, what);
  UserState& state = user.state;
  state.total.add(t, what);
  for (const auto& [kind, key] :
       {std::pair(PairKind::kSurface, keys.surface), std::pair(PairKind::kTag, keys.tag),
        std::pair(PairKind::kAuthor, keys.author)}) {
    state.pair_for(kind, key, t, config_.user, user.dirty_sections).add(t, what);
  }
  if (config_.context.extended) count_residuals(user, counted);
}

// The keys that a feature of the extended set reads.
void Applier::count_residuals(CachedUser& user, const Counted& counted) {
  const ExposureKeys& keys = counted.keys;
  const base::UnixMs t = counted.time_ms;
  // An exposure takes away what was expected of it, its click gives 1.
  const double clicked = counted.what == Count::kClicks ? 1 : 0;
  const double item_delta = clicked - counted.baseline.q0;
  const double user_delta = clicked - counted.baseline.p0;
  const Key hour = local_hour(config_.context, counted.shown_ms);
  for (const CounterKey& key :
       {CounterKey{CounterKind::kGlobal, 0, 0}, CounterKey{CounterKind::kItem, keys.item, 0},
        CounterKey{CounterKind::kAuthor, keys.author, 0},
        CounterKey{CounterKind::kTagset, keys.tagset, 0},
        CounterKey{CounterKind::kSurface, keys.surface, 0},
        CounterKey{CounterKind::kItemSurface, keys.item, keys.surface},
        CounterKey{CounterKind::kBucketSurface, keys.bucket, keys.surface},
        CounterKey{CounterKind::kHourSurface, hour, keys.surface},
        CounterKey{CounterKind::kTagSurface, keys.tag, keys.surface},
        CounterKey{CounterKind::kAuthorSurface, keys.author, keys.surface}}) {
    item_side_.add_residual(key, t, counted.what, item_delta);
  }
  UserState& state = user.state;
  // From now on the sections hold them too.
  if (state.residuals.empty()) user.dirty_sections.set();
  state.residuals.add(t, counted.what, user_delta);
  for (const auto& [kind, key] :
       {std::pair(PairKind::kSurface, keys.surface), std::pair(PairKind::kTag, keys.tag),
        std::pair(PairKind::kHalfBucket, half_bucket_key(keys.bucket))}) {
    state.residual_pair_for(kind, key, t, config_.user, user.dirty_sections)
        .add(t, counted.what, user_delta);
  }
}

void Applier::remember_id(ingest::Partition partition, char letter, const IdHash& id,
                          KnownId known) {
  std::string value;
  Encoder out(value);
  out.fixed(known.time_ms);
  out.zigzag(known.offset);
  batch_.put(Family::kExpiring, id_key(partition, letter, id), value);
  batch_ids_[with_letter(id, letter)] = known;
}

base::Result<std::optional<Applier::KnownId>> Applier::known_id(PartitionState& state, char letter,
                                                                const IdHash& id) {
  std::optional<KnownId> known;
  const auto it = batch_ids_.find(with_letter(id, letter));
  if (it != batch_ids_.end()) {
    known = it->second;
  } else {
    SF_ASSIGN(const auto value, store_.get(Family::kExpiring, id_key(state.partition, letter, id)));
    if (value) {
      Decoder in(*value);
      known.emplace();
      known->time_ms = in.fixed<base::UnixMs>();
      known->offset = in.zigzag();
    }
  }
  // The compaction filter drops it at some time after this: what it does must not matter.
  if (known && too_old(state, known->time_ms)) known.reset();
  return known;
}

base::Result<void> Applier::commit() {
  const auto started = std::chrono::steady_clock::now();
  if (auto error = item_side_.take_error()) return rollback(*std::move(error));
  item_side_.write_to(batch_);
  users_.write_to(batch_);
  if (types_.changed()) batch_.put(Family::kState, node_prefix(kTypesLetter), types_.encode());
  for (auto& [source, position] : positions_) {
    if (position.dirty) batch_.put(Family::kState, position_key(source), position.encode());
  }
  for (auto& [number, state] : partitions_) {
    write_pending(state);
    write_retained(state);
    expire_requests(state);
    if (!state.dirty) continue;
    batch_.put(Family::kState, partition_prefix(number, kMetaLetter), state.encode_meta());
  }
  for (const ingest::Partition p : dirty_dead_letters_) {
    batch_.put(Family::kState, partition_prefix(p, kDeadLetterSequenceLetter),
               encode_sequence(dead_letter_sequence_.at(p)));
  }
  if (counts_.newest_ms > newest_ms_) {
    std::string value;
    Encoder(value).zigzag(counts_.newest_ms);
    batch_.put(Family::kState, node_prefix(kNewestLetter), value);
  }
  if (batch_.count() > 0) {
    if (auto written = store_.write(batch_); !written) return rollback(std::move(written).error());
  }
  after_commit();
  probe_.apply_seconds.observe(
      std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count());
  return {};
}

void Applier::after_commit() {
  if (config_.index.enabled) {
    item_side_.for_changed_items([&](const CatalogItemPtr& item) {
      index_.update(*item);
      // One that comes back (hidden before, or expired) has its clicks still.
      if (item->known && !item->hidden) clicked_items_.insert(item->hash);
    });
    for (const Key item : clicked_items_) {
      index_.set_clicks(item, item_side_.counter({CounterKind::kItem, item, 0}));
    }
    index_.expire((wiring_.clock != nullptr ? *wiring_.clock : wall_clock_).now_ms());
  }
  item_side_.commit();
  users_.commit();
  types_.commit();
  base::UnixMs oldest = INT64_MAX;
  std::size_t open = 0;
  std::size_t retained = 0;
  std::size_t held = 0;
  std::size_t requests = 0;
  for (auto& [number, state] : partitions_) {
    state.dirty = false;
    state.unstored.clear();
    state.retained.loaded.clear();
    state.requests.fresh.clear();
    // A partition without a watermark holds no ids yet: it must not keep those of the others.
    if (state.newest_ms) oldest = std::min(oldest, watermark(state));
    open += state.pending.size();
    retained += state.retained.places.size();
    held += state.held.size();
    requests += state.requests.size();
    if (state.pending.example_bytes() * partitions_.size() > config_.store.pending_bytes) {
      state.pending.drop_stored_examples();
    }
  }
  for (auto& [source, position] : positions_) position.dirty = false;
  if (oldest != INT64_MAX) {
    store_.floors().ids = oldest - config_.join.dedup_horizon_ms;
    store_.floors().tombstones = oldest - config_.join.tombstone_age_max_ms;
  }
  newest_ms_ = std::max(newest_ms_, counts_.newest_ms);
  if (wiring_.event_clock != nullptr) wiring_.event_clock->advance_to(newest_ms_);
  probe_.open_windows.set(static_cast<double>(open));
  probe_.retained.set(static_cast<double>(retained));
  probe_.held.set(static_cast<double>(held));
  probe_.held_requests.set(static_cast<double>(requests));
  probe_.user_cache_bytes.set(static_cast<double>(users_.bytes()));
  report();
}

void Applier::report() {
  report_state();
  probe_.in.add(counts_.in);
  probe_.applied.add(counts_.applied);
  probe_.duplicate.add(counts_.duplicate);
  probe_.replayed.add(counts_.replayed);
  probe_.out_of_order.add(counts_.out_of_order);
  probe_.impressions.add(counts_.impressions);
  probe_.exposures.add(counts_.exposures);
  probe_.actions_attributed.add(counts_.attributed);
  probe_.actions_late.add(counts_.late);
  probe_.actions_unattributed.add(counts_.unattributed);
  probe_.examples.add(counts_.examples);
  probe_.corrections.add(counts_.corrections);
  probe_.examples_muted.add(counts_.muted);
  probe_.impressions_erased.add(counts_.impressions_erased);
  probe_.windows_idle_closed.add(counts_.idle_closed);
  probe_.inputs_served.add(counts_.inputs_served);
  probe_.inputs_unmatched.add(counts_.inputs_unmatched);
  probe_.inputs_unnamed.add(counts_.inputs_unnamed);
  probe_.requests_unfit.add(counts_.requests_unfit);
  probe_.requests_evicted.add(counts_.requests_evicted);
  probe_.requests_late.add(counts_.requests_late);
  probe_.served_histories.add(counts_.served_histories);
  for (const double mean : counts_.served_differences) probe_.served_difference.observe(mean);
  for (std::size_t i = 0; i < counts_.rejected.size(); ++i) {
    if (counts_.rejected[i] > 0) {
      probe_.rejected(static_cast<ingest::RejectReason>(i), counts_.rejected[i]);
    }
  }
  outbox_written_ = std::exchange(batch_outbox_, {});
  if (counts_.outbox > 0) probe_.outbox_entries.add(static_cast<double>(counts_.outbox));
  probe_.outbox_entries.add(-static_cast<double>(counts_.outbox_erased));
  for (BatchRemoval& each : batch_removals_) {
    removals_.add(each.source, each.offset, std::move(each.removal));
  }
  forget_batch();
}

void Applier::forget_batch() {
  counts_ = BatchCounts{};
  batch_.clear();
  batch_ids_.clear();
  batch_examples_.clear();
  batch_dead_letters_.clear();
  batch_removals_.clear();
  dirty_dead_letters_.clear();
  clicked_items_.clear();
}

// Memory becomes what the disk says, so that the caller may apply the same records again.
base::Result<void> Applier::rollback(base::Error error) {
  item_side_.rollback();
  users_.rollback();
  types_.rollback();
  forget_batch();
  outbox_written_.clear();
  batch_outbox_.clear();
  if (auto loaded = load(); !loaded) {
    base::log_warning("{}; reading it again with the next batch", loaded.error().message);
  }
  return base::fail(std::move(error));
}

}  // namespace sirenfeed::features
