#include "features/store_outbox.h"

#include <algorithm>

#include "features/outbox_value.h"
#include "features/state_keys.h"

namespace sirenfeed::features {
namespace {

constexpr std::size_t kPrefixBytes = 6;  // 0x01 partition letter

char letter_of(const OutboxStream& stream) {
  return stream.topic == ingest::Topic::kExamples ? kExamplesLetter : kDeadLettersLetter;
}

OutboxStream stream_of(std::string_view key) {
  OutboxStream stream;
  stream.partition = static_cast<ingest::Partition>(read_be32(key.data() + 1));
  stream.topic = key[5] == kExamplesLetter ? ingest::Topic::kExamples : ingest::Topic::kDeadLetters;
  return stream;
}

}  // namespace

base::Result<std::vector<OutboxStream>> StoreOutbox::streams() const {
  SF_TRY(load_when_reopened());
  std::vector<OutboxStream> streams;
  base::MutexLock lock(mutex_);
  for (const auto& [stream, bounds] : bounds_) {
    if (bounds.written > bounds.acknowledged) streams.push_back(stream);
  }
  return streams;
}

StoreOutbox::Bounds StoreOutbox::bounds_of(OutboxStream stream) const {
  base::MutexLock lock(mutex_);
  const auto it = bounds_.find(stream);
  return it == bounds_.end() ? Bounds{} : it->second;
}

base::Result<std::vector<OutboxEntry>> StoreOutbox::read(OutboxStream stream, std::uint64_t from,
                                                         std::size_t entries_max,
                                                         std::size_t bytes_max) const {
  std::vector<OutboxEntry> entries;
  std::size_t bytes = 0;
  bool damaged = false;
  const char letter = letter_of(stream);
  const Bounds bounds = bounds_of(stream);
  SF_TRY(store_.scan(Family::kOutbox, partition_prefix(stream.partition, letter),
                     outbox_key(stream.partition, letter, std::max(from, bounds.acknowledged + 1)),
                     [&](std::string_view key, std::string_view value) {
                       if (!entries.empty() && bytes + value.size() > bytes_max) return false;
                       bytes += value.size();
                       const auto entry = OutboxValue::decode(value);
                       damaged = damaged || !entry;
                       if (damaged) return false;
                       entries.push_back({read_be64(key.data() + kPrefixBytes),
                                          std::string(entry->key), std::string(entry->bytes),
                                          entry->time_ms});
                       return entries.size() < entries_max;
                     }));
  if (damaged) {
    return base::fail(base::ErrorCode::kCorrupt, "an outbox entry of {}/{} cannot be decoded",
                      ingest::topic_name(stream.topic), stream.partition);
  }
  if (entries.empty() && from <= bounds.acknowledged + 1) {
    // An erasure has taken the last ones: there is nothing left to wait for.
    base::MutexLock lock(mutex_);
    Bounds& known = bounds_[stream];
    known.acknowledged = std::max(known.acknowledged, bounds.written);
  }
  return entries;
}

base::Result<void> StoreOutbox::keep_during(const std::function<base::Result<void>()>& work) const {
  const base::MutexLock lock(acknowledging_);
  return work();
}

base::Result<void> StoreOutbox::acknowledge(OutboxStream stream, std::uint64_t sequence) {
  const base::MutexLock one_at_a_time(acknowledging_);
  // A store that has refused a write must not wait for the next batch of events.
  SF_TRY(store_.ensure_writable());
  SF_TRY(load_when_reopened());
  const char letter = letter_of(stream);
  WriteBatch batch;
  SF_TRY(store_.scan(Family::kOutbox, partition_prefix(stream.partition, letter),
                     outbox_key(stream.partition, letter, bounds_of(stream).acknowledged + 1),
                     [&](std::string_view key, std::string_view) {
                       if (read_be64(key.data() + kPrefixBytes) > sequence) return false;
                       batch.erase(Family::kOutbox, key);
                       return true;
                     }));
  const std::size_t gone = batch.count();
  if (gone == 0) return {};
  SF_TRY(store_.write(batch));
  {
    base::MutexLock lock(mutex_);
    Bounds& bounds = bounds_[stream];
    bounds.acknowledged = std::max(bounds.acknowledged, sequence);
  }
  probe_.outbox_sent.add(gone);
  probe_.outbox_entries.add(-static_cast<double>(gone));
  return {};
}

void StoreOutbox::wait(std::chrono::milliseconds timeout) const {
  base::MutexLock lock(mutex_);
  if (!fresh_) lock.wait_for(written_, timeout);
  fresh_ = false;
}

void StoreOutbox::notify(const Written& written) {
  {
    base::MutexLock lock(mutex_);
    for (const auto& [stream, sequence] : written) bounds_[stream].written = sequence;
    fresh_ = true;
  }
  written_.notify_all();
}

// A batch whose write failed may be in the store after all, once it was opened again.
base::Result<void> StoreOutbox::load_when_reopened() const {
  {
    base::MutexLock lock(mutex_);
    if (generation_ == store_.generation()) return {};
  }
  return load();
}

base::Result<void> StoreOutbox::begin_anew() {
  {
    base::MutexLock lock(mutex_);
    bounds_.clear();
  }
  return load();
}

base::Result<void> StoreOutbox::load() const {
  const std::uint64_t generation = store_.generation();
  double entries = 0;
  std::map<OutboxStream, Bounds> found;
  SF_TRY(store_.scan(Family::kOutbox, "\x01", [&](std::string_view key, std::string_view) {
    const std::uint64_t sequence = read_be64(key.data() + kPrefixBytes);
    const auto at = found.try_emplace(stream_of(key), Bounds{sequence - 1, sequence}).first;
    at->second.written = sequence;
    entries += 1;
    return true;
  }));
  base::MutexLock lock(mutex_);
  for (const auto& [stream, bounds] : bounds_) {
    // A batch may have been committed during the scan.
    Bounds& known = found.try_emplace(stream, bounds).first->second;
    known.written = std::max(known.written, bounds.written);
  }
  bounds_ = std::move(found);
  generation_ = generation;
  probe_.outbox_entries.set(entries);
  return {};
}

}  // namespace sirenfeed::features
