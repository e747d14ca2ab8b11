#pragma once
// What the newest erasures and takedowns have removed: for the receipt of whoever asked for one.
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "base/mutex.h"
#include "ingest/topic.h"

namespace sirenfeed::features {

/// Keys removed (of the outbox also replaced), by family as `inspect state` names them.
using Removal = std::map<std::string, std::uint64_t>;

/// Keeps the newest kRemovalsMax. Threads: any.
class RemovalLog {
 public:
  static constexpr std::size_t kRemovalsMax = 1024;

  void add(ingest::TopicPartition source, ingest::Offset offset, Removal removal)
      SF_EXCLUDES(mutex_) {
    base::MutexLock lock(mutex_);
    entries_.push_back({source, offset, std::move(removal)});
    if (entries_.size() > kRemovalsMax) entries_.pop_front();
  }
  /// Of the record at `offset`; nullopt: it removed nothing, or long ago.
  [[nodiscard]] std::optional<Removal> find(ingest::TopicPartition source,
                                            ingest::Offset offset) const SF_EXCLUDES(mutex_) {
    base::MutexLock lock(mutex_);
    for (auto it = entries_.rbegin(); it != entries_.rend(); ++it) {
      if (it->source == source && it->offset == offset) return it->removal;
    }
    return std::nullopt;
  }

 private:
  struct Entry {
    ingest::TopicPartition source;
    ingest::Offset offset = 0;
    Removal removal;
  };
  mutable base::Mutex mutex_;
  std::deque<Entry> entries_ SF_GUARDED_BY(mutex_);
};

}  // namespace sirenfeed::features
