#pragma once
// The model that is served, exchanged while requests run.
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/result.h"
#include "model/model_store.h"
#include "serving/config.h"
#include "serving/probe.h"

namespace sirenfeed::serving {

/// What the slot serves and what it refused: /v1/model and /readyz say it.
struct ModelStatus {
  std::uint64_t version = 0;          // 0: none yet
  base::UnixMs created_ms = 0;        // when it was published
  base::UnixMs loaded_ms = 0;         // when it was swapped in
  std::uint64_t refused_version = 0;  // the latest refused one; 0: none since the last swap
  std::string last_error;             // why it was refused, or why the store cannot be read
};

/// Owns the polling thread; start() and stop() are idempotent. Threads: any may call the rest.
class ModelSlot {
 public:
  using Snapshot = std::shared_ptr<const model::ModelSnapshot>;

  /// `store_dir`: the folder of model_store.h. The clock is the wall's: it gives the model's age.
  ModelSlot(const ModelSlotConfig& config, std::string store_dir, const base::Clock& wall_clock,
            ServingProbe& probe);
  ~ModelSlot();
  ModelSlot(const ModelSlot&) = delete;
  ModelSlot& operator=(const ModelSlot&) = delete;

  void start();
  void stop();
  /// One look at the store, as the thread does: loads, checks (check-sum, shapes, finite, canaries)
  /// and swaps in a new version. True when it swapped. On any error the old model stays.
  base::Result<bool> poll_once();

  /// The model to serve with, which the caller keeps until its request ends; nullptr before the
  /// first one.
  [[nodiscard]] Snapshot current() const;
  [[nodiscard]] ModelStatus status() const;
  /// Manifests of the versions seen, oldest first, at most history_versions_max: the trainer's time
  /// series.
  [[nodiscard]] std::vector<model::Manifest> history() const;

  // The store's operations, which take effect before they return.
  base::Result<std::vector<model::Manifest>> list();
  base::Result<std::optional<std::uint64_t>> pinned();
  base::Result<void> pin(std::uint64_t version);
  base::Result<void> unpin();
  base::Result<std::uint64_t> rollback();

 private:
  void run(const std::stop_token& stop);
  base::Result<void> check_canaries(const model::ModelSnapshot& snapshot) const;
  void append_history(const model::Manifest& manifest) SF_REQUIRES(mutex_);

  const ModelSlotConfig config_;
  const base::Clock& wall_clock_;
  ServingProbe& probe_;

  base::Mutex store_mutex_;  // taken before mutex_, never after it
  model::ModelStoreReader store_ SF_GUARDED_BY(store_mutex_);

  // A mutex and not atomic<shared_ptr>: libstdc++ 12 has a lock inside that one too, which the
  // thread sanitizer cannot see through.
  mutable base::Mutex mutex_;
  Snapshot current_ SF_GUARDED_BY(mutex_);
  ModelStatus status_ SF_GUARDED_BY(mutex_);
  std::deque<model::Manifest> history_ SF_GUARDED_BY(mutex_);

  base::Mutex wake_mutex_;
  std::condition_variable wake_;
  std::jthread thread_;
};

}  // namespace sirenfeed::serving
