#include "features/state_keys.h"

#include "base/hash.h"

namespace sirenfeed::features {
namespace {
constexpr char kNodePrefix = 0x00;
constexpr char kPartitionPrefix = 0x01;

void append_id(std::string& out, std::string_view id) {
  out.push_back(static_cast<char>(id.size()));
  out.append(id);
}

std::string lettered_counter_key(char letter, const CounterKey& counter) {
  std::string key = node_prefix(letter);
  key.push_back(static_cast<char>(counter.kind));
  append_be64(key, counter.a);
  append_be64(key, counter.b);
  return key;
}
}  // namespace

void append_be64(std::string& out, std::uint64_t value) {
  for (int shift = 56; shift >= 0; shift -= 8) out.push_back(static_cast<char>(value >> shift));
}
void append_be32(std::string& out, std::uint32_t value) {
  for (int shift = 24; shift >= 0; shift -= 8) out.push_back(static_cast<char>(value >> shift));
}
std::uint64_t read_be64(const char* bytes) {
  std::uint64_t value = 0;
  for (int i = 0; i < 8; ++i) value = value << 8 | static_cast<std::uint8_t>(bytes[i]);
  return value;
}
std::uint32_t read_be32(const char* bytes) {
  std::uint32_t value = 0;
  for (int i = 0; i < 4; ++i) value = value << 8 | static_cast<std::uint8_t>(bytes[i]);
  return value;
}

IdHash id_hash(std::string_view user_id, std::string_view id) {
  std::string bytes;
  bytes.reserve(user_id.size() + id.size() + 2);
  append_id(bytes, user_id);
  bytes.append(id);
  IdHash hash;
  hash.low = base::xxh3_64(bytes);
  bytes.push_back('2');  // a second, independent hash: 128 bits make a false duplicate unthinkable
  hash.high = base::xxh3_64(bytes);
  return hash;
}

std::string node_prefix(char letter) { return {kNodePrefix, letter}; }

std::string partition_prefix(ingest::Partition partition) {
  std::string key(1, kPartitionPrefix);
  append_be32(key, static_cast<std::uint32_t>(partition));
  return key;
}
std::string partition_prefix(ingest::Partition partition, char letter) {
  std::string key = partition_prefix(partition);
  key.push_back(letter);
  return key;
}

std::string catalog_key(Key item) {
  std::string key = node_prefix(kCatalogLetter);
  append_be64(key, item);
  return key;
}

std::string counter_key(const CounterKey& counter) {
  return lettered_counter_key(kCounterLetter, counter);
}
std::string residuals_key(const CounterKey& counter) {
  return lettered_counter_key(kResidualsLetter, counter);
}
CounterKey parse_counter_key(std::string_view key) {
  CounterKey counter;
  if (key.size() != 19) return counter;
  counter.kind = static_cast<CounterKind>(key[2]);
  counter.a = read_be64(key.data() + 3);
  counter.b = read_be64(key.data() + 11);
  return counter;
}

std::string position_key(ingest::TopicPartition source) {
  if (source.topic == ingest::Topic::kItems) {
    std::string key = node_prefix(kItemsPositionLetter);
    append_be32(key, static_cast<std::uint32_t>(source.partition));
    return key;
  }
  std::string key = partition_prefix(source.partition, kPositionLetter);
  key.push_back(static_cast<char>(source.topic));
  return key;
}

std::string user_key(ingest::Partition partition, std::string_view user_id) {
  std::string key = partition_prefix(partition, kUserLetter);
  append_id(key, user_id);
  return key;
}
std::string section_key(ingest::Partition partition, std::string_view user_id,
                        std::uint8_t section) {
  std::string key = partition_prefix(partition, kSectionLetter);
  append_id(key, user_id);
  key.push_back(static_cast<char>(section));
  return key;
}

std::string pending_key(ingest::Partition partition, char letter, base::UnixMs time,
                        ingest::Offset offset) {
  std::string key = partition_prefix(partition, letter);
  append_be64(key, sortable(time));
  append_be64(key, sortable(offset));
  return key;
}

std::string held_key(ingest::TopicPartition source, ingest::Offset offset) {
  std::string key = partition_prefix(source.partition, kHeldLetter);
  key.push_back(static_cast<char>(source.topic));
  append_be64(key, sortable(offset));
  return key;
}

std::string id_key(ingest::Partition partition, char letter, const IdHash& id) {
  std::string key = partition_prefix(partition, letter);
  append_be64(key, id.high);
  append_be64(key, id.low);
  return key;
}

std::string erased_key(ingest::Partition partition, std::string_view user_id) {
  // What says that a user was erased does not name the user.
  return id_key(partition, kErasedLetter, id_hash(user_id, ""));
}

std::string outbox_key(ingest::Partition partition, char letter, std::uint64_t sequence) {
  std::string key = partition_prefix(partition, letter);
  append_be64(key, sequence);
  return key;
}

}  // namespace sirenfeed::features
