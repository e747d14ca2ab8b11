#pragma once
// The impressions of one partition whose join window is open.
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "features/catalog_item.h"
#include "features/exposure_keys.h"
#include "features/state_keys.h"
#include "features/user_state.h"
#include "ingest/topic.h"

namespace sirenfeed::features {

class Example;

struct PendingItem {
  Key item = kNoKey;
  // As they were when it was shown: the keys that its actions count on.
  Key author = kNoKey;
  Key tag = kNoKey;
  std::uint64_t types = 0;  // bit of each action type that it got
  // Of the extended set.
  Key tagset = kNoKey;
  DurationBucket bucket = kNoDuration;
};

struct Pending {
  Pending();
  ~Pending();
  Pending(Pending&&) noexcept;
  Pending& operator=(Pending&&) noexcept;

  base::UnixMs time_ms = 0;
  ingest::Offset offset = 0;
  std::string user_id;
  IdHash id;  // of the impression
  Key surface = kNoKey;
  std::vector<PendingItem> items;
  std::unique_ptr<Example> example;  // without labels; null: only on the disk
  std::size_t example_bytes = 0;     // of `example` while it is there
  std::uint32_t left = 0;            // bit of each task whose revision 0 has left
  bool complete = false;             // all of revision 0 has left
  std::uint8_t stage = 0;            // of JoinWindows: the one that ends next; follows from `left`
  std::uint32_t revision = 0;        // the newest that was made while it is joined
  IdHash request;                    // the served request that it names and that has not come yet
  bool stored = false;               // the store has example and labels
  bool labels_dirty = false;
  bool example_dirty = false;  // `example` is newer than the store's

  [[nodiscard]] PendingItem* find(Key item) {
    for (PendingItem& shown : items) {
      if (shown.item == item) return &shown;
    }
    return nullptr;
  }
};

/// Threads: the applying one. Entries stay where they are until they are removed.
class PendingSet {
 public:
  using Place = std::pair<base::UnixMs, ingest::Offset>;

  PendingSet();
  ~PendingSet();
  PendingSet(PendingSet&&) noexcept;
  PendingSet& operator=(PendingSet&&) noexcept;

  Pending& add(Pending pending);
  [[nodiscard]] Pending* find(std::string_view user_id, const IdHash& id);
  [[nodiscard]] Pending* at(Place place);
  /// The newest of the user that shows the item with time <= action < time + window + 1 ms.
  [[nodiscard]] Pending* newest_within(std::string_view user_id, Key item, base::UnixMs action,
                                       base::UnixMs window);
  [[nodiscard]] std::vector<Pending*> of_user(std::string_view user_id);
  /// How many stages JoinWindows has; before the first add().
  void set_stages(std::size_t stages);
  /// The first by (time, offset) of those at `stage`; null when there is none.
  [[nodiscard]] Pending* first(std::size_t stage);
  void to_next_stage(Pending& pending);
  /// All of its revision 0 has left: it stays to be joined by corrections.
  void complete(Pending& pending);
  /// Those that are not complete.
  [[nodiscard]] std::size_t waiting() const { return waiting_; }
  void remove(Pending& pending);
  [[nodiscard]] std::size_t size() const { return by_place_.size(); }
  [[nodiscard]] std::size_t example_bytes() const { return example_bytes_; }
  void set_example_bytes(Pending& pending, std::size_t bytes) {
    example_bytes_ += bytes - pending.example_bytes;
    pending.example_bytes = bytes;
  }
  /// Lets go of the decoded examples that the store has.
  void drop_stored_examples();

 private:
  std::map<Place, Pending> by_place_;
  std::vector<std::set<Place>> by_stage_;  // empty where there is one stage
  std::unordered_map<std::string, std::vector<Place>> by_user_;
  std::size_t example_bytes_ = 0;
  std::size_t waiting_ = 0;
};

}  // namespace sirenfeed::features
