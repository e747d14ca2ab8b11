#pragma once
// A folder of published models:
//   versions/N/model.safetensors, versions/N/manifest.json   N = 1, 2, … in decimal
//   CURRENT   "N\n", the newest published
//   PINNED    "N\n", present while an operator holds serving at N
// A version is written under a temporary name, fsynced and renamed; CURRENT likewise, after it. So
// a reader never sees half a version, and a crash loses at most the one being written.
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/model.h"
#include "model/ranker.h"

namespace sirenfeed::model {

struct ModelStoreConfig {
  std::string dir;
  std::size_t keep_max = 20;  // newest versions kept; the current and the pinned one always are
  [[nodiscard]] base::Result<void> validate() const;
};

struct Manifest {
  std::uint64_t version = 0;
  std::int64_t created_ms = 0;  // by the publisher's clock
  std::string variant;
  std::uint64_t bytes = 0;
  std::uint64_t xxh3 = 0;             // of model.safetensors
  std::vector<double> canary_logits;  // of canary_slates(), to be met within 1e-3
  std::string metrics_json = "{}";    // free form JSON; {} in place of what is not JSON
};

/// What serving uses: immutable once made.
struct ModelSnapshot {
  Manifest manifest;
  Model model;
  std::unique_ptr<const Ranker> ranker;
};

/// One writer process a folder. Not thread-safe.
class ModelStoreWriter {
 public:
  /// Makes the folder; numbering goes on after the highest version found.
  [[nodiscard]] static base::Result<ModelStoreWriter> open(ModelStoreConfig config);

  /// Publishes `model` as the next version and points CURRENT at it. kInternal for a model that is
  /// not finite (nothing is written), kStorage.
  [[nodiscard]] base::Result<std::uint64_t> publish(const Model& model, std::int64_t now_ms,
                                                    const std::string& metrics_json = "{}");
  [[nodiscard]] std::uint64_t last_version() const { return last_version_; }

 private:
  explicit ModelStoreWriter(ModelStoreConfig config) : config_(std::move(config)) {}
  void prune();
  ModelStoreConfig config_;
  std::uint64_t last_version_ = 0;
};

/// Reads a store and its controls. Any number of processes; one thread an object.
class ModelStoreReader {
 public:
  explicit ModelStoreReader(std::string dir) : dir_(std::move(dir)) {}

  /// The version that serving should use now: PINNED, else CURRENT; nullopt in an empty store.
  [[nodiscard]] base::Result<std::optional<std::uint64_t>> wanted() const;
  [[nodiscard]] base::Result<std::optional<std::uint64_t>> pinned() const;
  /// Loads and verifies: check-sum, shapes, finiteness, canary scoring. The error says which check
  /// refused the version; the caller keeps its old snapshot.
  [[nodiscard]] base::Result<std::shared_ptr<const ModelSnapshot>> load(
      std::uint64_t version) const;
  /// A new snapshot when wanted() differs from the last version that poll() returned or refused;
  /// nullptr when nothing changed. A refused version is reported once, as an error.
  [[nodiscard]] base::Result<std::shared_ptr<const ModelSnapshot>> poll();

  /// Manifests, oldest first; versions whose manifest cannot be read are left out.
  [[nodiscard]] base::Result<std::vector<Manifest>> list() const;
  /// Holds serving at `version`. kNotFound, or load()'s error when it would be refused.
  [[nodiscard]] base::Result<void> pin(std::uint64_t version);
  /// Lets serving follow CURRENT again.
  [[nodiscard]] base::Result<void> unpin();
  /// Pins the newest version older than wanted(); returns it. kNotFound when there is none.
  [[nodiscard]] base::Result<std::uint64_t> rollback();
  /// Copies the wanted version's files into `out_dir`, made where absent. Returns the version.
  [[nodiscard]] base::Result<std::uint64_t> export_to(const std::string& out_dir) const;

 private:
  std::string dir_;
  std::uint64_t last_polled_ = 0;
};

/// Fixed slates made from the model itself, whose logits the manifest keeps.
[[nodiscard]] std::vector<Slate> canary_slates(const Model& model);

}  // namespace sirenfeed::model
