// An erasure takes what is kept of a user out of every family: what the user's own keys hold, open
// windows, held records, and what waits in the outbox.
#include <example.pb.h>

#include <algorithm>
#include <boost/json.hpp>

#include "features/applier.h"
#include "features/outbox_value.h"
#include "ingest/dead_letter.h"

namespace sirenfeed::features {
namespace {

// What the trainer counts the sequence number of, and learns nothing from: the identity stays, so
// that a store made anew knows how far this one had come.
std::string erased_value(const Example& example) {
  Example erased;
  erased.set_version(example.version());
  erased.set_impression_partition(example.impression_partition());
  erased.set_impression_offset(example.impression_offset());
  erased.set_revision(example.revision());
  erased.set_part(example.part());
  erased.set_parts(example.parts());
  erased.set_partition(example.partition());
  erased.set_epoch(example.epoch());
  erased.set_sequence(example.sequence());
  erased.set_time_ms(example.time_ms());
  erased.set_closed_ms(example.closed_ms());
  erased.set_erased(true);
  return OutboxValue{erased.time_ms(), "", erased.SerializeAsString()}.encode();
}

bool belongs_to_an_id(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-' ||
         static_cast<unsigned char>(c) >= 0x80;
}

// `id` stands in `text`, and not as a part of a longer one.
bool mentions(std::string_view text, std::string_view id) {
  if (id.empty()) return false;
  for (auto at = text.find(id); at != std::string_view::npos; at = text.find(id, at + 1)) {
    const std::size_t end = at + id.size();
    if (at > 0 && belongs_to_an_id(text[at - 1])) continue;
    if (end < text.size() && belongs_to_an_id(text[end])) continue;
    return true;
  }
  return false;
}

// A rejected payload may be anything: where the id may be the user's, it is.
bool letter_mentions(std::string_view json, std::string_view id) {
  const auto letter = ingest::parse_dead_letter(json);
  if (!letter) return mentions(json, id);
  if (mentions(letter->payload, id) || mentions(letter->rejection.detail, id)) return true;
  boost::system::error_code error;  // an id may be written with escapes
  const boost::json::value value = boost::json::parse(letter->payload, error);
  return !error && mentions(boost::json::serialize(value), id);
}

}  // namespace

base::Result<void> Applier::erase_user(const ingest::InputRecord& record, PartitionState& state,
                                       CachedUser& user, base::UnixMs time) {
  Removal removal;
  const auto removed = [&](const char* family, std::uint64_t keys) {
    if (keys > 0) removal[family] += keys;
  };
  removed("users", user.stored || !user.state.empty() ? 1 : 0);
  for (std::size_t s = 0; user.external && s < kUserSections; ++s) {
    removed("user_sections", user.state.encode_section(s).empty() ? 0 : 1);
  }
  users_.erase(user, time);
  state.dirty = true;
  for (Pending* pending : state.pending.of_user(user.id)) {
    removed("pending_examples", 1);
    removed("pending_labels", 1);
    if (pending->left != windows_.all_tasks()) {
      ++counts_.impressions_erased;
      ++state.impressions.erased;
    }
    SF_TRY(drop_pending(state, *pending));
  }
  const std::size_t retained = state.retained.places.size();
  SF_TRY(forget_retained_of(state, user.id));
  removed("retained", retained - state.retained.places.size());
  removed("pending_examples", retained - state.retained.places.size());
  const std::size_t requests = state.requests.size();
  SF_TRY(forget_requests_of(state, user.id));
  removed("requests", 2 * (requests - state.requests.size()));
  removed("held", erase_held(state, user.id));
  SF_ASSIGN(const std::uint64_t examples, erase_outbox_examples(state.partition, user.id));
  removed("outbox", examples);
  SF_ASSIGN(const std::uint64_t letters, erase_dead_letters(user.id));
  removed("dead_letters", letters);
  batch_removals_.push_back({record.source, record.offset, std::move(removal)});
  return {};
}

std::uint64_t Applier::erase_held(PartitionState& state, const std::string& user_id) {
  return std::erase_if(state.held, [&](const HeldRecord& held) {
    const auto& body = std::get<ingest::EventBody>(held.record.content);
    const auto* impression = std::get_if<ingest::Impression>(&body);
    const auto* action = std::get_if<ingest::Action>(&body);
    const bool of_user = (impression != nullptr && impression->user_id == user_id) ||
                         (action != nullptr && action->user_id == user_id);
    if (!of_user) return false;
    batch_.erase(Family::kState, held_key(held.record.source, held.record.offset));
    settle(held.record, ingest::Rejection{ingest::RejectReason::kTombstone, "the user was erased"});
    return true;
  });
}

// Examples that have not left yet. One that the relay has in hand leaves nevertheless; then it is a
// copy in topic examples, and the entry written here is never read: it lies before what was
// acknowledged.
base::Result<std::uint64_t> Applier::erase_outbox_examples(ingest::Partition partition,
                                                           std::string_view user_id) {
  std::uint64_t erased = 0;
  std::optional<base::Error> error;
  SF_TRY(store_.scan(Family::kOutbox, partition_prefix(partition, kExamplesLetter),
                     [&](std::string_view key, std::string_view value) {
                       const auto entry = OutboxValue::decode(value);
                       if (entry && entry->key != user_id) return true;
                       Example example;
                       if (!entry ||
                           !example.ParseFromArray(entry->bytes.data(),
                                                   static_cast<int>(entry->bytes.size()))) {
                         error = base::Error{base::ErrorCode::kCorrupt,
                                             "an example of the outbox cannot be decoded; "
                                             "`sirenfeed rebuild` makes the state anew"};
                         return false;
                       }
                       batch_.put(Family::kOutbox, key, erased_value(example));
                       ++erased;
                       return true;
                     }));
  if (error) return base::fail(*std::move(error));
  for (BatchExample& example : batch_examples_) {
    if (example.user_id != user_id) continue;
    batch_.put(Family::kOutbox, example.key, erased_value(*example.identity));
    ++erased;
    example.user_id.clear();
  }
  return erased;
}

// Those of every partition: a record in the wrong one is rejected for that.
base::Result<std::uint64_t> Applier::erase_dead_letters(std::string_view user_id) {
  std::uint64_t erased = 0;
  SF_TRY(store_.scan(Family::kOutbox, "\x01", [&](std::string_view key, std::string_view value) {
    if (key[5] != kDeadLettersLetter) return true;
    const auto entry = OutboxValue::decode(value);
    if (!letter_mentions(entry ? entry->bytes : value, user_id)) return true;
    batch_.erase(Family::kOutbox, key);
    ++erased;
    return true;
  }));
  erased += std::erase_if(batch_dead_letters_, [&](const BatchDeadLetter& letter) {
    if (!letter_mentions(letter.json, user_id)) return false;
    batch_.erase(Family::kOutbox, letter.key);
    return true;
  });
  counts_.outbox_erased += erased;
  return erased;
}

}  // namespace sirenfeed::features
