#pragma once
// Turns records into state: the one thread that changes anything. apply_*.cc hold one kind of
// record each, windows.cc the join's windows.
#include <array>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "features/action_types.h"
#include "features/candidate_index.h"
#include "features/context_computer.h"
#include "features/example_builder.h"
#include "features/feature_state.h"
#include "features/frozen_users.h"
#include "features/item_side.h"
#include "features/join_windows.h"
#include "features/outbox_value.h"
#include "features/partition_state.h"
#include "features/probe.h"
#include "features/removal_log.h"
#include "features/served_inputs.h"
#include "features/store.h"
#include "features/user_cache.h"
#include "ingest/event_sink.h"

namespace sirenfeed::features {

/// What the applier borrows; everything outlives it.
struct ApplierParts {
  const FeaturesConfig& config;
  const FeaturesProbe& probe;
  const StateWiring& wiring;
  Store& store;
  ItemSide& item_side;
  ActionTypes& types;
  CandidateIndex& index;
  const ContextComputer& computer;
  RemovalLog& removals;
};

/// Threads: one at a time (FeatureState sees to it).
class Applier {
 public:
  explicit Applier(const ApplierParts& parts);

  /// Reads what is kept in memory from the store: at open and after a failed batch.
  base::Result<void> load();

  base::Result<void> apply(std::span<const ingest::InputRecord> records);
  base::Result<void> idle(ingest::Partition partition);
  base::Result<void> close_windows(ingest::Partition partition);
  base::Result<std::optional<ingest::AppliedPosition>> position(ingest::TopicPartition source);
  /// See FeatureState::resume_examples.
  base::Result<bool> resume_examples(ingest::Partition number, const SentExamples& sent);
  [[nodiscard]] SentExamples written_examples(ingest::Partition number) const;
  [[nodiscard]] ImpressionCounts impressions() const;
  /// See FeatureState::seed_tombstones.
  base::Result<void> seed_tombstones(std::span<const Tombstone> tombstones);
  /// The last sequence of each stream that the last batch put into the outbox.
  using OutboxWritten = std::map<OutboxStream, std::uint64_t>;
  [[nodiscard]] const OutboxWritten& outbox_written() const { return outbox_written_; }

 private:
  struct Applied {};
  struct Duplicate {};
  struct Held {};
  using Outcome = std::variant<Applied, Duplicate, Held, ingest::Rejection>;

  // What a batch counts, told to the probe when it is committed.
  struct BatchCounts {
    std::uint64_t in = 0, applied = 0, duplicate = 0, replayed = 0, out_of_order = 0;
    std::uint64_t impressions = 0, exposures = 0, attributed = 0, late = 0, unattributed = 0;
    std::uint64_t examples = 0, muted = 0, corrections = 0, idle_closed = 0, outbox = 0;
    std::uint64_t impressions_erased = 0, outbox_erased = 0;
    std::uint64_t inputs_served = 0, inputs_unmatched = 0, inputs_unnamed = 0;
    std::uint64_t requests_unfit = 0, requests_evicted = 0, requests_late = 0;
    std::uint64_t served_histories = 0;
    std::vector<double> served_differences;  // an example each
    std::array<std::uint64_t, static_cast<std::size_t>(ingest::RejectReason::kUndecodable) + 1>
        rejected{};
    base::UnixMs newest_ms = INT64_MIN;
  };

  // A remembered id: its event's time and, for an impression, where it lies.
  struct KnownId {
    base::UnixMs time_ms = 0;
    ingest::Offset offset = 0;
  };

  // applier.cc
  void forget_batch();
  base::Result<void> ensure_ready();
  base::Result<void> apply_one(const ingest::InputRecord& record);
  base::Result<Outcome> dispatch(const ingest::InputRecord& record);
  base::Result<Outcome> apply_timed(PartitionState& state, const ingest::InputRecord& record);
  void move_clock(const ingest::InputRecord& record);
  void settle(const ingest::InputRecord& record, const Outcome& outcome);
  void put_outbox(OutboxStream stream, std::uint64_t sequence, const OutboxValue& value);
  void write_dead_letter(const ingest::InputRecord& record, const ingest::Rejection& rejection);
  base::Result<void> commit();
  void after_commit();
  void report();
  void report_state() const;
  base::Result<void> rollback(base::Error error);
  PartitionState& partition(ingest::Partition number);
  base::Result<void> load_newest();
  base::Result<void> load_partition(PartitionState& state);
  base::Result<void> load_dead_letter_sequence(ingest::Partition number);
  /// `shown_ms`: when the exposure was shown that is counted, or answered.
  struct Counted {
    const ExposureKeys& keys;
    base::UnixMs shown_ms = 0;
    base::UnixMs time_ms = 0;
    Count what = Count::kShown;
    Baseline baseline;  // where `what` is kShown
  };
  void count(CachedUser& user, const Counted& counted);
  void count_residuals(CachedUser& user, const Counted& counted);
  void remember_id(ingest::Partition partition, char letter, const IdHash& id, KnownId known);
  base::Result<std::optional<KnownId>> known_id(PartitionState& state, char letter,
                                                const IdHash& id);
  [[nodiscard]] base::UnixMs watermark(const PartitionState& state) const;
  /// Of all partitions: tombstones before it are out of force.
  [[nodiscard]] base::UnixMs tombstone_floor() const;
  /// Nullptr also where CatalogItem::forgotten.
  [[nodiscard]] CatalogItemPtr remembered_item(Key hash) const;
  [[nodiscard]] bool too_old(const PartitionState& state, base::UnixMs time) const;

  // apply_impression.cc
  base::Result<Outcome> apply_impression(const ingest::InputRecord& record,
                                         const ingest::Impression& event);
  base::Result<std::optional<ingest::Rejection>> resolve_items(const ingest::Impression& event);
  void count_exposures(CachedUser& user, const ingest::Impression& event, ingest::Offset offset);

  // apply_action.cc
  base::Result<Outcome> apply_action(const ingest::InputRecord& record,
                                     const ingest::Action& event);
  // What an action answers: an impression with an open window, one that has closed (late), or
  // nothing.
  struct Joined {
    Pending* pending = nullptr;      // also of `retained`
    Retained* retained = nullptr;    // late, and can be corrected
    PendingItem* cell = nullptr;     // of `pending`
    SequenceEntry* entry = nullptr;  // null: the exposure is no longer kept
    bool late = false;
  };
  base::Result<void> join_late(PartitionState& state, PendingSet::Place place, Key item,
                               Joined& joined);
  base::Result<Joined> join(PartitionState& state, CachedUser& user, const ingest::Action& event,
                            Key item);
  void add_to_sequence(CachedUser& user, SequenceEntry* entry, const ingest::InputRecord& record,
                       const ingest::Action& event, Key item);

  // apply_catalog.cc
  base::Result<Outcome> apply_item(const ingest::InputRecord& record,
                                   const ingest::ItemUpdate& event);
  base::Result<Removal> take_down(CatalogItem item, base::UnixMs time);
  base::Result<void> surface_counters(std::string prefix, std::vector<CounterKey>& keys);
  base::Result<Outcome> apply_user(const ingest::InputRecord& record,
                                   const ingest::UserUpdate& event);

  // apply_erasure.cc
  base::Result<void> erase_user(const ingest::InputRecord& record, PartitionState& state,
                                CachedUser& user, base::UnixMs time);
  std::uint64_t erase_held(PartitionState& state, const std::string& user_id);
  base::Result<std::uint64_t> erase_outbox_examples(ingest::Partition partition,
                                                    std::string_view user_id);
  base::Result<std::uint64_t> erase_dead_letters(std::string_view user_id);

  // apply_request.cc
  [[nodiscard]] base::UnixMs request_floor(const PartitionState& state) const;
  base::Result<Outcome> apply_request(const ingest::InputRecord& record,
                                      const ingest::ServedRequest& event);
  base::Result<void> serve_pending(PartitionState& state, const ingest::ServedRequest& event,
                                   const IdHash& id, const Example& served);
  base::Result<void> serve_impression(PartitionState& state, const ingest::Impression& event,
                                      Pending& pending);
  void note_served(const std::optional<ServedDifference>& difference);
  void forget_request(PartitionState& state, HeldRequests::Place place);
  void expire_requests(PartitionState& state);
  base::Result<void> forget_requests_of(PartitionState& state, std::string_view user_id);
  base::Result<void> each_request(
      const PartitionState& state,
      const std::function<void(HeldRequests::Place, const HeldRequest&)>& visit) const;
  base::Result<void> load_requests(PartitionState& state);

  // windows.cc
  void remember_example(const Example& example);
  base::Result<void> move_outbox(PartitionState& state, const SentExamples& sent);
  base::Result<void> advance(PartitionState& state, base::UnixMs time);
  base::Result<std::uint64_t> close_until(PartitionState& state, base::UnixMs watermark);
  Pending* next_due(PartitionState& state, base::UnixMs watermark);
  base::Result<void> close(PartitionState& state, Pending& pending);
  void leave(PartitionState& state, Pending& pending, std::uint32_t tasks, base::UnixMs closed_ms,
             Example example);
  bool muted(PartitionState& state, const Pending& pending, base::UnixMs closed_ms);
  base::Result<std::unique_ptr<Example>> example_of(const PartitionState& state, Pending& pending,
                                                    bool take);
  static void labels_changed(PartitionState& state, Pending& pending);
  base::Result<void> drop_pending(PartitionState& state, Pending& pending);
  base::Result<std::unique_ptr<Example>> stored_example(ingest::Partition partition,
                                                        PendingSet::Place place);
  void send(PartitionState& state, Example& example);
  void write_pending(PartitionState& state);

  // corrections.cc
  [[nodiscard]] base::UnixMs retention_floor(const PartitionState& state) const;
  void retain(PartitionState& state, Pending& pending, std::string example);
  base::Result<Retained*> retained_at(PartitionState& state, PendingSet::Place place);
  base::Result<void> correct(PartitionState& state, const Joined& joined, ActionType type,
                             base::UnixMs time);
  void forget_retained(PartitionState& state, PendingSet::Place place);
  void expire_retained(PartitionState& state);
  base::Result<void> forget_retained_of(PartitionState& state, std::string_view user_id);
  void write_retained(PartitionState& state);
  base::Result<void> load_retained(PartitionState& state);
  // held.cc
  [[nodiscard]] bool jumps(const PartitionState& state, base::UnixMs time) const;
  void hold(PartitionState& state, const ingest::InputRecord& record);
  base::Result<void> release_confirmed(PartitionState& state);
  base::Result<void> settle_held(PartitionState& state, std::optional<base::UnixMs> confirmed_until,
                                 const char* reason);
  base::Result<void> expire_held(PartitionState& state, bool all);

  const FeaturesConfig& config_;
  const FeaturesProbe& probe_;
  const StateWiring& wiring_;
  Store& store_;
  ItemSide& item_side_;
  ActionTypes& types_;
  CandidateIndex& index_;
  const base::WallClock wall_clock_;
  const base::SteadyClock steady_clock_;
  const ActionType click_;
  const ActionType long_view_;
  ExampleBuilder builder_;
  const JoinWindows windows_;
  UserCache users_;
  FrozenUsers frozen_users_;  // empty unless the observer wants them
  std::map<ingest::Partition, PartitionState> partitions_;
  std::map<ingest::TopicPartition, InputPosition> positions_;
  std::map<ingest::Partition, std::uint64_t> dead_letter_sequence_;
  OutboxWritten outbox_written_;
  base::UnixMs newest_ms_ = INT64_MIN;  // greatest event time applied, of any input
  bool loaded_ = false;                 // the maps above are what the store says
  std::uint64_t generation_ = 0;        // of the store that they came from

  RemovalLog& removals_;

  // The batch in the making.
  struct BatchExample {
    std::string key;
    std::string user_id;
    std::unique_ptr<Example> identity;  // without what was shown and learned
  };
  struct BatchDeadLetter {
    std::string key;
    std::string json;
  };
  struct BatchRemoval {
    ingest::TopicPartition source;
    ingest::Offset offset = 0;
    Removal removal;
  };
  WriteBatch batch_;
  std::vector<BatchExample> batch_examples_;
  std::vector<BatchDeadLetter> batch_dead_letters_;
  std::vector<BatchRemoval> batch_removals_;
  BatchCounts counts_;
  std::unordered_map<IdHash, KnownId, IdHashHash> batch_ids_;
  OutboxWritten batch_outbox_;
  std::set<ingest::Partition> dirty_dead_letters_;
  std::set<Key> clicked_items_;
  std::vector<Shown> shown_;  // scratch: of the impression being applied
};

}  // namespace sirenfeed::features
