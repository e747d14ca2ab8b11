#pragma once
#include <condition_variable>
#include <functional>
#include <map>

#include "base/mutex.h"
#include "features/outbox.h"
#include "features/probe.h"
#include "features/store.h"

namespace sirenfeed::features {

/// The outbox as it lies in the store. Threads: any.
class StoreOutbox final : public Outbox {
 public:
  StoreOutbox(Store& store, const FeaturesProbe& probe) : store_(store), probe_(probe) {}

  [[nodiscard]] base::Result<std::vector<OutboxStream>> streams() const override;
  [[nodiscard]] base::Result<std::vector<OutboxEntry>> read(OutboxStream stream, std::uint64_t from,
                                                            std::size_t entries_max,
                                                            std::size_t bytes_max) const override;
  base::Result<void> acknowledge(OutboxStream stream, std::uint64_t sequence) override;
  void wait(std::chrono::milliseconds timeout) const override;

  /// The last sequence of each stream that a batch has written.
  using Written = std::map<OutboxStream, std::uint64_t>;
  /// After that batch was committed.
  void notify(const Written& written);
  /// Runs `work` while nothing can be acknowledged: what the log has got since it began is still
  /// here at its end.
  base::Result<void> keep_during(const std::function<base::Result<void>()>& work) const;
  /// As at open: the numbers of a stream may have begun anew.
  base::Result<void> begin_anew();
  /// Finds out what lies in the store: at open, and by itself after the store was opened again.
  base::Result<void> load() const;

 private:
  // Reads begin behind what was acknowledged: a seek would step over every deleted entry that no
  // compaction has removed yet.
  struct Bounds {
    std::uint64_t acknowledged = 0;
    std::uint64_t written = 0;
  };
  [[nodiscard]] Bounds bounds_of(OutboxStream stream) const;
  [[nodiscard]] base::Result<void> load_when_reopened() const;

  Store& store_;
  const FeaturesProbe& probe_;
  mutable base::Mutex acknowledging_;  // taken before mutex_
  mutable base::Mutex mutex_;
  mutable std::condition_variable written_;
  mutable std::map<OutboxStream, Bounds> bounds_ SF_GUARDED_BY(mutex_);
  mutable std::uint64_t generation_ SF_GUARDED_BY(mutex_) = 0;  // of the store that they came from
  mutable bool fresh_ SF_GUARDED_BY(mutex_) = true;
};

}  // namespace sirenfeed::features
