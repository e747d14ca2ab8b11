#include "features/partition_state.h"

#include <example.pb.h>

#include "features/encode.h"
#include "ingest/event_parser.h"

namespace sirenfeed::features {
namespace {

constexpr std::uint8_t kPositionVersion = 1;
constexpr std::uint8_t kFirstMetaVersion = 1;  // without the counts of impressions
constexpr std::uint8_t kMetaVersion = 2;
constexpr std::uint8_t kHeldVersion = 1;
constexpr std::uint8_t kLabelsVersion = 1;
constexpr std::uint8_t kExtendedLabelsVersion = 2;
constexpr std::uint8_t kJoinLabelsVersion = 3;  // what neither of the others can say
constexpr std::uint8_t kExtendedFlag = 1;

tl::unexpected<base::Error> corrupt(const char* what) {
  return base::fail(base::ErrorCode::kCorrupt,
                    "a stored {} cannot be decoded; `sirenfeed rebuild` makes the state anew",
                    what);
}

}  // namespace

std::string InputPosition::encode() const {
  std::string value;
  Encoder out(value);
  out.byte(kPositionVersion);
  out.byte(applied.has_value() ? 1 : 0);
  if (applied) {
    out.zigzag(applied->offset);
    out.zigzag(applied->time_ms);
    out.fixed(applied->hash);
  }
  for (const std::uint64_t n : {counts.in, counts.applied, counts.rejected, counts.duplicate}) {
    out.varint(n);
  }
  return value;
}

base::Result<InputPosition> InputPosition::decode(std::string_view value) {
  Decoder in(value);
  InputPosition position;
  const std::uint8_t version = in.byte();
  if (in.byte() != 0) {
    auto& applied = position.applied.emplace();
    applied.offset = in.zigzag();
    applied.time_ms = in.zigzag();
    applied.hash = in.fixed<std::uint64_t>();
  }
  auto& counts = position.counts;
  for (auto* n : {&counts.in, &counts.applied, &counts.rejected, &counts.duplicate}) {
    *n = in.varint();
  }
  if (version != kPositionVersion || !in.finished()) return corrupt("position");
  return position;
}

std::string PartitionState::encode_meta() const {
  std::string value;
  Encoder out(value);
  out.byte(kMetaVersion);
  out.optional_time(newest_ms);
  out.varint(epoch);
  out.varint(last_sequence);
  out.byte(mute_until.has_value() ? 1 : 0);
  if (mute_until) {
    out.zigzag(mute_until->first);
    out.zigzag(mute_until->second);
  }
  out.varint(mute_corrections);
  out.zigzag(mute_closed_ms);
  for (const std::uint64_t n : {impressions.accepted, impressions.left, impressions.erased}) {
    out.varint(n);
  }
  return value;
}

base::Result<void> PartitionState::decode_meta(std::string_view value) {
  Decoder in(value);
  const std::uint8_t version = in.byte();
  newest_ms = in.optional_time();
  epoch = in.varint();
  last_sequence = in.varint();
  if (in.byte() != 0) {
    mute_until.emplace();
    mute_until->first = in.zigzag();
    mute_until->second = in.zigzag();
  }
  if (in.ok() && !in.at_end()) mute_corrections = in.varint();
  if (version > kFirstMetaVersion) {
    mute_closed_ms = in.zigzag();
    for (auto* n : {&impressions.accepted, &impressions.left, &impressions.erased}) {
      *n = in.varint();
    }
  }
  counted = version > kFirstMetaVersion;
  if (version < kFirstMetaVersion || version > kMetaVersion || !in.finished())
    return corrupt("partition's watermark");
  return {};
}

std::string encode_held(const ingest::InputRecord& record) {
  std::string value;
  Encoder out(value);
  out.byte(kHeldVersion);
  out.byte(static_cast<std::uint8_t>(record.source.topic));
  out.zigzag(record.source.partition);
  out.zigzag(record.offset);
  out.zigzag(record.log_time_ms);
  out.fixed(record.hash);
  out.bytes(record.payload);
  return value;
}

base::Result<ingest::InputRecord> decode_held(std::string_view value) {
  Decoder in(value);
  ingest::InputRecord record;
  const std::uint8_t version = in.byte();
  record.source.topic = static_cast<ingest::Topic>(in.byte());
  record.source.partition = static_cast<ingest::Partition>(in.zigzag());
  record.offset = in.zigzag();
  record.log_time_ms = in.zigzag();
  record.hash = in.fixed<std::uint64_t>();
  record.payload = in.bytes();
  const bool known = record.source.topic <= ingest::Topic::kClicks &&
                     record.source.topic != ingest::Topic::kRequests;
  if (version != kHeldVersion || !in.finished() || !known) return corrupt("held record");
  // The payload was good when it was held: parsing it again, within any limits, keeps one format.
  ingest::ParserConfig config;
  config.message_bytes_max = config.items_max = config.text_bytes_max = SIZE_MAX;
  config.id_bytes_max = config.tags_max = config.numeric_max = config.blocked_max = SIZE_MAX;
  config.timestamp_min_ms = INT64_MIN;
  config.check_future = false;
  const base::WallClock clock;
  auto parsed = ingest::EventParser(config, clock)
                    .parse_event(record.source.topic, record.payload, record.log_time_ms);
  if (!parsed) return corrupt("held record");
  record.time_ms = ingest::event_time_ms(parsed->body);
  record.content = std::move(parsed->body);
  return record;
}

PendingSet::Place pending_place(std::string_view key) {
  return {unsortable(read_be64(key.data() + 6)),
          static_cast<ingest::Offset>(unsortable(read_be64(key.data() + 14)))};
}

std::string encode_labels(const Pending& pending, bool extended) {
  std::string value;
  Encoder out(value);
  const bool plain = pending.left == 0 && pending.revision == 0 && pending.request == IdHash();
  if (plain) {
    out.byte(extended ? kExtendedLabelsVersion : kLabelsVersion);
  } else {
    out.byte(kJoinLabelsVersion);
    out.byte(extended ? kExtendedFlag : 0);
    out.varint(pending.left);
    out.varint(pending.revision);
    out.fixed(pending.request.high);
    out.fixed(pending.request.low);
  }
  out.bytes(pending.user_id);
  out.fixed(pending.id.high);
  out.fixed(pending.id.low);
  out.fixed(pending.surface);
  out.varint(pending.items.size());
  for (const PendingItem& item : pending.items) {
    out.fixed(item.item);
    out.fixed(item.author);
    out.fixed(item.tag);
    out.varint(item.types);
    if (!extended) continue;
    out.fixed(item.tagset);
    out.byte(item.bucket);
  }
  return value;
}

base::Result<Pending> decode_labels(std::string_view value) {
  Decoder in(value);
  Pending pending;
  const std::uint8_t version = in.byte();
  bool extended = version == kExtendedLabelsVersion;
  if (version == kJoinLabelsVersion) {
    extended = (in.byte() & kExtendedFlag) != 0;
    pending.left = static_cast<std::uint32_t>(in.varint());
    pending.revision = static_cast<std::uint32_t>(in.varint());
    pending.request.high = in.fixed<std::uint64_t>();
    pending.request.low = in.fixed<std::uint64_t>();
  }
  pending.user_id = in.bytes();
  pending.id.high = in.fixed<std::uint64_t>();
  pending.id.low = in.fixed<std::uint64_t>();
  pending.surface = in.fixed<Key>();
  pending.items.resize(in.count(25));
  for (PendingItem& item : pending.items) {
    item.item = in.fixed<Key>();
    item.author = in.fixed<Key>();
    item.tag = in.fixed<Key>();
    item.types = in.varint();
    if (!extended) continue;
    item.tagset = in.fixed<Key>();
    item.bucket = in.byte();
  }
  pending.stored = true;
  if (version < kLabelsVersion || version > kJoinLabelsVersion || !in.finished())
    return corrupt("pending impression");
  return pending;
}

}  // namespace sirenfeed::features
