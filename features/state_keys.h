#pragma once
// The keys of the store (docs/FORMATS.md has the grammar). Integers in keys are big-endian, so that
// byte order is numeric order.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "features/catalog_item.h"
#include "ingest/topic.h"

namespace sirenfeed::features {

/// Column families.
enum class Family : std::uint8_t {
  kState,     // what lasts
  kExpiring,  // dedup ids and tombstones: a compaction filter drops what is past its age
  kOutbox,
};
inline constexpr std::size_t kFamilies = 3;

// Node state: 0x00 letter …
inline constexpr char kCatalogLetter = 'I';
inline constexpr char kCounterLetter = 'C';
inline constexpr char kResidualsLetter = 'R';
inline constexpr char kTypesLetter = 'T';
inline constexpr char kFormatLetter = 'F';
inline constexpr char kItemsPositionLetter = 'P';
inline constexpr char kNewestLetter = 'N';
// A partition's state: 0x01 partition letter …
inline constexpr char kMetaLetter = 'M';
inline constexpr char kPositionLetter = 'P';
inline constexpr char kUserLetter = 'U';
inline constexpr char kSectionLetter = 'S';
inline constexpr char kPendingLetter = 'J';
inline constexpr char kLabelsLetter = 'L';
inline constexpr char kRetainedLetter = 'K';
inline constexpr char kHeldLetter = 'H';
inline constexpr char kRequestLetter = 'q';
inline constexpr char kInputsLetter = 'Q';
// Within kExpiring: 0x01 partition letter …
inline constexpr char kImpressionIdLetter = 'i';
inline constexpr char kEventIdLetter = 'e';
inline constexpr char kErasedLetter = 'x';
// Within kOutbox: 0x01 partition letter sequence
inline constexpr char kExamplesLetter = 'e';
inline constexpr char kDeadLettersLetter = 'd';
// The sequences of the dead letters, which the items' partitions have too.
inline constexpr char kDeadLetterSequenceLetter = 'D';

enum class CounterKind : std::uint8_t {
  kGlobal,
  kItem,
  kAuthor,
  kTag,
  kSurface,
  kItemSurface,
  kItemUnattributed,  // clicks and long views that joined no impression
  // Of the extended set alone.
  kTagset,
  kBucketSurface,
  kHourSurface,
  kTagSurface,
  kAuthorSurface,
};

struct CounterKey {
  CounterKind kind = CounterKind::kGlobal;
  Key a = kNoKey;
  Key b = kNoKey;
  friend bool operator==(const CounterKey&, const CounterKey&) = default;
};
struct CounterKeyHash {
  std::size_t operator()(const CounterKey& key) const noexcept {
    std::uint64_t h = key.a + 0x9E3779B97F4A7C15U * (static_cast<std::uint64_t>(key.kind) + 1);
    h = (h ^ (h >> 32)) * 0xD6E8FEB86659FD93U;
    h += key.b;
    h = (h ^ (h >> 29)) * 0xBF58476D1CE4E5B9U;
    return h ^ (h >> 32);
  }
};

struct IdHash {
  std::uint64_t high = 0;
  std::uint64_t low = 0;
  friend bool operator==(const IdHash&, const IdHash&) = default;
};
struct IdHashHash {
  std::size_t operator()(const IdHash& id) const noexcept { return id.low; }
};
/// Of an impression or event id within its user.
[[nodiscard]] IdHash id_hash(std::string_view user_id, std::string_view id);

void append_be64(std::string& out, std::uint64_t value);
void append_be32(std::string& out, std::uint32_t value);
[[nodiscard]] std::uint64_t read_be64(const char* bytes);
[[nodiscard]] std::uint32_t read_be32(const char* bytes);
/// Order-preserving: negative times sort first.
[[nodiscard]] inline std::uint64_t sortable(std::int64_t value) {
  return static_cast<std::uint64_t>(value) ^ (1ULL << 63U);
}
[[nodiscard]] inline std::int64_t unsortable(std::uint64_t value) {
  return static_cast<std::int64_t>(value ^ (1ULL << 63U));
}

[[nodiscard]] std::string node_prefix(char letter);
[[nodiscard]] std::string partition_prefix(ingest::Partition partition);
[[nodiscard]] std::string partition_prefix(ingest::Partition partition, char letter);

[[nodiscard]] std::string catalog_key(Key item);
[[nodiscard]] std::string counter_key(const CounterKey& key);
/// Where the extended set keeps what it counts of the key.
[[nodiscard]] std::string residuals_key(const CounterKey& key);
/// Of either.
[[nodiscard]] CounterKey parse_counter_key(std::string_view key);
/// Items' positions are node state, all others lie with their partition.
[[nodiscard]] std::string position_key(ingest::TopicPartition source);
[[nodiscard]] std::string user_key(ingest::Partition partition, std::string_view user_id);
[[nodiscard]] std::string section_key(ingest::Partition partition, std::string_view user_id,
                                      std::uint8_t section);
/// letter: kPendingLetter, kLabelsLetter, kRetainedLetter, kRequestLetter or kInputsLetter.
[[nodiscard]] std::string pending_key(ingest::Partition partition, char letter, base::UnixMs time,
                                      ingest::Offset offset);
[[nodiscard]] std::string held_key(ingest::TopicPartition source, ingest::Offset offset);
[[nodiscard]] std::string id_key(ingest::Partition partition, char letter, const IdHash& id);
[[nodiscard]] std::string erased_key(ingest::Partition partition, std::string_view user_id);
[[nodiscard]] std::string outbox_key(ingest::Partition partition, char letter,
                                     std::uint64_t sequence);

}  // namespace sirenfeed::features
