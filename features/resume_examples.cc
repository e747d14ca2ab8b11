// How a state that is new, or older than the examples that lie in the log, goes on: in the next
// epoch, silent up to what was sent. And the tombstones that a rebuild begins with.
#include <example.pb.h>

#include "base/hash.h"
#include "features/applier.h"
#include "features/outbox_value.h"

namespace sirenfeed::features {

// In case the same batch erases the user.
void Applier::remember_example(const Example& example) {
  BatchExample& kept = batch_examples_.emplace_back();
  kept.key = outbox_key(example.partition(), kExamplesLetter, example.sequence());
  kept.user_id = example.user_id();
  kept.identity = std::make_unique<Example>();
  kept.identity->set_version(example.version());
  kept.identity->set_impression_partition(example.impression_partition());
  kept.identity->set_impression_offset(example.impression_offset());
  kept.identity->set_revision(example.revision());
  kept.identity->set_part(example.part());
  kept.identity->set_parts(example.parts());
  kept.identity->set_partition(example.partition());
  kept.identity->set_epoch(example.epoch());
  kept.identity->set_sequence(example.sequence());
  kept.identity->set_time_ms(example.time_ms());
  kept.identity->set_closed_ms(example.closed_ms());
}

base::Result<bool> Applier::resume_examples(ingest::Partition number, const SentExamples& sent) {
  SF_TRY(ensure_ready());
  PartitionState& state = partition(number);
  SF_ASSIGN(const auto impressions, position({ingest::Topic::kImpressions, number}));
  const bool lost = !impressions.has_value() && state.last_sequence == 0 && state.epoch == 1;
  const bool older =
      std::pair(state.epoch, state.last_sequence) < std::pair(sent.epoch, sent.sequence);
  if (!lost && !older) return false;
  if (auto moved = move_outbox(state, sent); !moved) {
    SF_TRY(rollback(std::move(moved).error()));
  }
  SF_TRY(commit());
  return true;
}

SentExamples Applier::written_examples(ingest::Partition number) const {
  const auto found = partitions_.find(number);
  if (found == partitions_.end()) return {1, 0, {}, 0, 0};
  return {found->second.epoch, found->second.last_sequence, {}, 0, 0};
}

// The next epoch begins: what waits in the outbox and was not sent gets its numbers.
base::Result<void> Applier::move_outbox(PartitionState& state, const SentExamples& sent) {
  // Of this epoch everything was sent that lies in the outbox, or `sent` would not be further.
  const bool all_sent = state.epoch == sent.epoch;
  state.epoch = sent.epoch + 1;
  state.last_sequence = 0;
  std::optional<LeavingRank> furthest;
  if (sent.furthest) {
    furthest =
        rank_of(config_.join, sent.furthest_closed_ms, sent.furthest->first, sent.furthest->second);
    if (!state.mute_until ||
        *furthest > rank_of(config_.join, state.mute_closed_ms, state.mute_until->first,
                            state.mute_until->second)) {
      state.mute_until = sent.furthest;
      state.mute_closed_ms = sent.furthest_closed_ms;
    }
  }
  state.mute_corrections = std::max(state.mute_corrections, sent.corrections);
  state.dirty = true;
  std::vector<std::unique_ptr<Example>> unsent;
  bool damaged = false;
  std::uint64_t gone = 0;
  SF_TRY(store_.scan(Family::kOutbox, partition_prefix(state.partition, kExamplesLetter),
                     [&](std::string_view key, std::string_view value) {
                       const auto entry = OutboxValue::decode(value);
                       auto example = std::make_unique<Example>();
                       damaged = damaged || !entry ||
                                 !example->ParseFromArray(entry->bytes.data(),
                                                          static_cast<int>(entry->bytes.size()));
                       batch_.erase(Family::kOutbox, key);
                       ++gone;
                       const bool beyond =
                           !furthest ||
                           rank_of(config_.join, example->closed_ms(), example->time_ms(),
                                   example->impression_offset()) > *furthest;
                       if (!all_sent && beyond) unsent.push_back(std::move(example));
                       return true;
                     }));
  if (damaged) {
    return base::fail(base::ErrorCode::kCorrupt,
                      "an example of the outbox cannot be decoded; `sirenfeed rebuild` makes the "
                      "state anew");
  }
  for (const auto& example : unsent) {
    example->set_epoch(state.epoch);
    example->set_sequence(++state.last_sequence);
    put_outbox({ingest::Topic::kExamples, state.partition}, example->sequence(),
               {example->time_ms(), example->user_id(), example->SerializeAsString()});
  }
  counts_.outbox_erased += gone;
  return {};
}

// Of the state that is made: before anything is applied.
base::Result<void> Applier::seed_tombstones(std::span<const Tombstone> tombstones) {
  SF_TRY(ensure_ready());
  for (const Tombstone& tombstone : tombstones) {
    base::Result<void> done;
    if (tombstone.user) {
      const ingest::Partition p = ingest::partition_of(tombstone.id, config_.partitions);
      auto user = users_.get(p, tombstone.id);
      if (user) {
        users_.erase(**user, tombstone.time_ms);
      } else {
        done = base::fail(user.error());
      }
    } else {
      CatalogItem item;
      item.id = tombstone.id;
      item.hash = base::xxh3_64(tombstone.id);
      const auto removed = take_down(std::move(item), tombstone.time_ms);
      if (!removed) done = base::fail(removed.error());
    }
    if (!done) return rollback(std::move(done).error());
  }
  return commit();
}

}  // namespace sirenfeed::features
