#pragma once
// The model that is served, exchanged while requests run.
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/result.h"
#include "serving/config.h"
#include "serving/probe.h"

namespace sirenfeed::model {
class ModelStoreReader;
struct Model;
struct Slate;
}  // namespace sirenfeed::model

namespace sirenfeed::serving {

/// One published version in memory. Immutable; a request keeps its own reference until it ends.
struct ModelSnapshot {
  std::uint64_t version = 0;
  std::shared_ptr<const model::Model> model;
  std::string manifest_json;    // as the trainer wrote it
  base::UnixMs created_ms = 0;  // wall time of publishing
  base::UnixMs loaded_ms = 0;   // wall time of the swap
};

/// The latest refused version: /v1/model and /readyz name it.
struct RefusedVersion {
  std::uint64_t version = 0;
  std::string reason;
};

/// One point of the trainer's time series, out of a version's manifest.
struct VersionMetrics {
  std::uint64_t version = 0;
  base::UnixMs created_ms = 0;
  std::string metrics_json;  // an object
};

/// Owns the polling thread; start() and stop() are idempotent. Threads: any may call current().
class ModelSlot {
 public:
  ModelSlot(const ModelSlotConfig& config, model::ModelStoreReader& store,
            const base::Clock& wall_clock, ServingProbe& probe);
  ~ModelSlot();
  ModelSlot(const ModelSlot&) = delete;
  ModelSlot& operator=(const ModelSlot&) = delete;

  void start();
  void stop();
  /// One look at the store, as the thread does: loads, checks (check-sum, shapes, finite, canary)
  /// and swaps a new current version. True when it swapped. The old model stays on any error.
  base::Result<bool> poll_once();

  /// nullptr before the first model.
  [[nodiscard]] std::shared_ptr<const ModelSnapshot> current() const;
  [[nodiscard]] std::optional<RefusedVersion> refused() const;
  /// Oldest first, at most history_versions_max.
  [[nodiscard]] std::vector<VersionMetrics> history() const;
  /// A request as it was scored: a later version must score it too before it is swapped in.
  void remember_canary(const model::Slate& slate);
  [[nodiscard]] model::ModelStoreReader& store() { return store_; }

 private:
  struct State;
  const ModelSlotConfig config_;
  model::ModelStoreReader& store_;
  const base::Clock& wall_clock_;
  ServingProbe& probe_;
  std::unique_ptr<State> state_;
  std::jthread thread_;
};

}  // namespace sirenfeed::serving
