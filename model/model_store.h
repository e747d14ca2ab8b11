#pragma once
// A folder of published models:
//   versions/N/manifest.json          N = 1, 2, … in decimal
//   versions/N/model.safetensors      the whole model, and/or
//   versions/N/delta.safetensors      what has changed since the version that the manifest names
//   CURRENT   "N\n", the newest published
//   PINNED    "N\n", present while an operator holds serving at N
//   PIN_LOCK     held while versions are pinned or removed
//   WRITER_LOCK  held by the one process that publishes
// A version is written under a temporary name, fsynced and renamed; CURRENT likewise, after it. So
// a reader never sees half a version, and a crash loses at most the one being written.
//
// A large model is published as a delta, every second; a full file is added to a version now and
// then, while deltas go on. Whoever follows needs the deltas alone; whoever starts, or has found a
// damaged delta, begins at the newest full file.
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/canary.h"
#include "model/manifest.h"
#include "model/model.h"
#include "model/ranker.h"

namespace sirenfeed::model {

struct ModelStoreConfig {
  std::string dir;
  /// Newest versions kept. The current and the pinned one always are, and so is whatever a kept
  /// delta builds on.
  std::size_t keep_max = 20;
  // A full file is due when the last one is this old by the publisher's clock, or when the deltas
  // since then have this share of its size together.
  std::chrono::milliseconds full_interval{60'000};
  double full_share = 1.0;
  std::size_t deltas_max = 1000;  // without a full file; then publish() writes one itself

  [[nodiscard]] base::Result<void> validate() const;
};

/// What serving uses: immutable once made.
struct ModelSnapshot {
  Manifest manifest;
  Model model;
  std::unique_ptr<const Ranker> ranker;
  /// Arrival of the oldest example that this snapshot has learned and the one that it was built on
  /// has not; 0 where it was not built on another.
  std::int64_t first_arrival_ms = 0;
};

/// One writer a folder, by its lock. Threads: one publishes; one other may call write_full
/// meanwhile.
class ModelStoreWriter {
 public:
  /// Makes the folder; numbering goes on after the highest version found. An unreadable CURRENT is
  /// logged and replaced by the next publication. kLocked while another writer has the folder.
  [[nodiscard]] static base::Result<ModelStoreWriter> open(ModelStoreConfig config);
  ~ModelStoreWriter();
  ModelStoreWriter(ModelStoreWriter&&) noexcept;
  ModelStoreWriter& operator=(ModelStoreWriter&&) noexcept;

  /// Publishes `model` as the next version and points CURRENT at it: as a delta to the version
  /// before, or whole where there is none in this process, where the delta would be more than half
  /// as long, or after deltas_max. kInternal for a model that is not finite (nothing is written),
  /// kStorage.
  [[nodiscard]] base::Result<std::uint64_t> publish(const Model& model, std::int64_t now_ms,
                                                    const std::string& metrics_json = "{}",
                                                    const Arrivals& arrivals = {});
  /// Whether the newest version should get a full file.
  [[nodiscard]] bool full_due(std::int64_t now_ms) const;
  /// Adds the full file to the newest version.
  [[nodiscard]] base::Result<void> write_full(std::int64_t now_ms);

  [[nodiscard]] std::uint64_t last_version() const;

 private:
  struct Impl;
  explicit ModelStoreWriter(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// Reads a store and its controls. Any number of processes; one thread an object. Keeps the newest
/// snapshot that it loaded, and builds on it.
class ModelStoreReader {
 public:
  explicit ModelStoreReader(std::string dir) : dir_(std::move(dir)) {}

  /// The version that serving should use now: PINNED, else CURRENT; nullopt in an empty store.
  [[nodiscard]] base::Result<std::optional<std::uint64_t>> wanted() const;
  [[nodiscard]] base::Result<std::optional<std::uint64_t>> pinned() const;
  /// Loads and verifies: check-sums, the chain of deltas, shapes, finiteness, canary scoring. The
  /// error says which check refused the version; the caller keeps its old snapshot.
  [[nodiscard]] base::Result<std::shared_ptr<const ModelSnapshot>> load(
      std::uint64_t version) const;
  /// A new snapshot when wanted() differs from the last version that poll() returned or refused;
  /// nullptr when nothing changed. A refused version is reported once, as an error, and looked at
  /// again when its manifest changes (a full file was added).
  [[nodiscard]] base::Result<std::shared_ptr<const ModelSnapshot>> poll();

  /// Manifests, oldest first; versions whose manifest cannot be read are left out.
  [[nodiscard]] base::Result<std::vector<Manifest>> list() const;
  /// What is wrong with the manifests that list() leaves out, oldest version first.
  [[nodiscard]] base::Result<std::vector<base::Error>> unreadable() const;
  /// Holds serving at `version`. kNotFound, or load()'s error when it would be refused.
  [[nodiscard]] base::Result<void> pin(std::uint64_t version);
  /// Lets serving follow CURRENT again.
  [[nodiscard]] base::Result<void> unpin();

  struct Rollback {
    std::uint64_t version = 0;
    std::vector<std::string> skipped;  // why each newer one was not taken
  };
  /// Pins the newest older version than wanted() that is not refused. kNotFound when there is none;
  /// its message has what was skipped.
  [[nodiscard]] base::Result<Rollback> rollback();
  /// Writes the wanted version as one full file with its manifest into `out_dir`, made where
  /// absent. Returns the version.
  [[nodiscard]] base::Result<std::uint64_t> export_to(const std::string& out_dir) const;

 private:
  using Snapshot = std::shared_ptr<const ModelSnapshot>;
  [[nodiscard]] base::Result<Snapshot> load_verified(std::uint64_t version) const;

  std::string dir_;
  std::uint64_t last_polled_ = 0;
  std::string refused_manifest_;  // text of last_polled_'s manifest, where it was refused
  Snapshot newest_;               // returned by poll()
  Snapshot verified_;             // loaded by pin(), for the poll() that follows
};

}  // namespace sirenfeed::model
