#pragma once
#include <condition_variable>

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

  /// A batch with entries was committed.
  void notify();
  /// Sets the gauge to what lies in the store.
  base::Result<void> count_entries() const;

 private:
  Store& store_;
  const FeaturesProbe& probe_;
  mutable base::Mutex mutex_;
  mutable std::condition_variable written_;
  mutable bool fresh_ SF_GUARDED_BY(mutex_) = true;
};

}  // namespace sirenfeed::features
