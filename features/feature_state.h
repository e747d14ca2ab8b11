#pragma once
// The state: sequences, the join, counters, catalog, seen set, tombstones, positions and outbox in
// one RocksDB, and everything that one apply() changes in one WriteBatch of it.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "features/feature_reader.h"
#include "features/features_config.h"
#include "features/outbox.h"
#include "features/probe.h"
#include "features/removal_log.h"
#include "ingest/event_sink.h"

namespace sirenfeed::features {

class Example;  // features/example_format/example.proto

/// Watches examples come to be, on the applying thread and before the batch is committed (so for
/// runs that do not retry: evaluate). For an impression record: on_exposure with the features as of
/// its time, before anything that it changes; then the watermark moves and on_closed is called for
/// each window that it closes, in order (T, offset). Sequence numbers are those of the outbox.
class ExampleObserver {
 public:
  virtual ~ExampleObserver() = default;
  /// The whole slate, unsplit; no labels yet, sequence 0.
  virtual void on_exposure(const Example& example) = 0;
  /// Once a part, and once a correction (revision above 0), which closes no window.
  virtual void on_closed(const Example& example) = 0;
  /// Whether on_frozen() is wanted, which costs a copy of every user.
  [[nodiscard]] virtual bool wants_frozen() const { return false; }
  /// Just before on_exposure(): the same slate with the user's history and features as the user
  /// stood at their first impression of the UTC day; time and items are as they are now.
  virtual void on_frozen(const Example& example) { (void)example; }
};

/// What open() borrows; each outlives the state and may be null.
struct StateWiring {
  base::EventClock* event_clock = nullptr;    // advanced to the greatest time applied, at open too
  const base::Clock* clock = nullptr;         // "now" of idle(); null: wall clock
  const base::SteadyClock* steady = nullptr;  // event_jump_hold; null: the real one
  ExampleObserver* observer = nullptr;
};

/// Keys and bytes of one family of the state.
struct FamilySize {
  std::string family;
  std::uint64_t keys = 0;
  std::uint64_t bytes = 0;  // keys and values before compression
};

/// Records of a partition since the store began: in = applied + rejected + duplicate.
struct Conservation {
  std::uint64_t in = 0;
  std::uint64_t applied = 0;
  std::uint64_t rejected = 0;
  std::uint64_t duplicate = 0;
};

/// Impressions since the store began: accepted = left + pending + erased. Corrections are apart.
struct ImpressionCounts {
  std::uint64_t accepted = 0;
  std::uint64_t left = 0;     // all of revision 0 is in the outbox or beyond, or was sent by an
                              // earlier store
  std::uint64_t pending = 0;  // not all of it
  std::uint64_t erased = 0;   // with their user, while they were pending
};

/// How far topic examples holds a partition, as its newest example says, and what of it a state
/// does not know.
struct SentExamples {
  std::uint64_t epoch = 0;
  std::uint64_t sequence = 0;
  /// The furthest impression (time, offset) among the unknown: a late one closes as it comes, so it
  /// need not be the newest. Nullopt: none is of revision 0.
  std::optional<std::pair<base::UnixMs, ingest::Offset>> furthest = {};
  base::UnixMs furthest_closed_ms = 0;
  std::uint64_t corrections = 0;  // unknown ones that follow it
};

/// The newest erasure of a user or takedown of an item.
struct Tombstone {
  bool user = false;  // else an item
  std::string id;
  base::UnixMs time_ms = 0;
};

/// Threads: the EventSink's methods come from one thread; every other method from any.
/// Failure: apply() is all or nothing. On kStorage memory is what the disk says and the caller may
/// apply the same records again.
class FeatureState final : public ingest::EventSink {
 public:
  /// kLocked names the folder that another process has open; kStorage what the disk refused;
  /// kCorrupt a value of another version or a state of another number of partitions.
  static base::Result<std::unique_ptr<FeatureState>> open(FeaturesConfig config,
                                                          FeaturesProbe& probe,
                                                          StateWiring wiring = {});
  /// The number of partitions that the store of a stopped process was made for; nullopt: none yet.
  static base::Result<std::optional<ingest::Partition>> stored_partitions(
      const StoreConfig& config);
  ~FeatureState() override;

  base::Result<void> apply(std::span<const ingest::InputRecord> records) override;
  base::Result<std::optional<ingest::AppliedPosition>> position(
      ingest::TopicPartition source) override;
  base::Result<void> idle(ingest::Partition partition) override;
  base::Result<void> close_windows(ingest::Partition partition) override;

  /// Tells a partition what its examples partition holds (align_examples.h does, before any record
  /// is applied). Where that is more than this state has written, a state was lost, rebuilt or put
  /// back from a backup: this one goes on in the next epoch and is silent up to the closing of that
  /// impression; what waits in the outbox beyond it moves to that epoch. True in that case; false:
  /// nothing was changed.
  base::Result<bool> resume_examples(ingest::Partition partition, const SentExamples& sent);
  /// How far the outbox was written; (1, 0): nothing yet. Not while records are applied.
  [[nodiscard]] SentExamples written_examples(ingest::Partition partition) const;
  /// For a rebuild, before anything is applied: events at or before a tombstone are then rejected
  /// as they come. One that is applied again later counts as a duplicate.
  base::Result<void> seed_tombstones(std::span<const Tombstone> tombstones);
  /// What the erasure or takedown in this record has removed; nullopt: nothing, or not lately.
  [[nodiscard]] std::optional<Removal> removed_by(ingest::TopicPartition source,
                                                  ingest::Offset offset) const;

  /// Lives as long as the state.
  [[nodiscard]] const FeatureReader& reader() const;
  [[nodiscard]] Outbox& outbox();
  [[nodiscard]] const FeaturesConfig& config() const;

  /// Every family in key order, one `family key: value` line each, decoded. Two runs that applied
  /// the same records give the same text, whatever happened to them on the way: outbox entries and
  /// ids past the dedup horizon are left out.
  base::Result<void> dump_canonical(std::ostream& out) const;
  [[nodiscard]] base::Result<std::vector<FamilySize>> families() const;
  [[nodiscard]] base::Result<Conservation> conservation() const;
  /// Not while records are applied.
  [[nodiscard]] ImpressionCounts impressions() const;
  /// JSON objects; kNotFound for a user or an item that the state does not know.
  [[nodiscard]] base::Result<std::string> inspect_user(std::string_view user_id) const;
  [[nodiscard]] base::Result<std::string> inspect_item(std::string_view item_id) const;
  /// A consistent copy of the store (hard links where it can) in `dir`, which must not exist.
  /// `first` looks at the log before that, and nothing leaves the outbox in between: what the copy
  /// has made lies in its outbox or in the log as `first` saw it.
  base::Result<void> backup_to(
      const std::string& dir,
      const std::function<base::Result<void>()>& first = [] { return base::Result<void>(); }) const;
  /// Waits until everything applied so far is on the disk, whatever wal_sync says.
  base::Result<void> sync();
  /// Takes what was deleted or has expired out of the files now. Threads: any; takes long.
  base::Result<void> compact();

 private:
  struct Impl;
  explicit FeatureState(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace sirenfeed::features
