#include <algorithm>
#include <filesystem>

#include "base/hash.h"
#include "model/file_io.h"
#include "model/model_delta.h"
#include "model/model_file.h"
#include "model/model_store.h"
#include "model/store_files.h"

namespace sirenfeed::model {

namespace fs = std::filesystem;
using base::ErrorCode;
using base::fail;

namespace {

/// How to come to a version: from a full file or from a snapshot that is there, by deltas.
struct Chain {
  std::vector<Manifest> deltas;  // newest first
  std::optional<Manifest> full;  // nullopt: begins at the snapshot
};

/// The manifest that `above`'s delta builds on.
base::Result<Manifest> manifest_below(const std::string& dir, const Manifest& above) {
  const StoredDelta& delta = *above.delta;
  const auto refuse = [&](ErrorCode code, std::string_view why) {
    return fail(code, "the delta of version {} builds on version {}, {}", above.version, delta.base,
                why);
  };
  if (delta.base >= above.version) return refuse(ErrorCode::kCorrupt, "which is not older");
  auto below = read_manifest(dir, delta.base);
  if (!below && below.error().code == ErrorCode::kNotFound) {
    return refuse(ErrorCode::kNotFound, "which is missing");
  }
  if (!below) return refuse(below.error().code, below.error().message);
  if (below->identity() != delta.base_identity) {
    return refuse(ErrorCode::kCorrupt, "which is another one now");
  }
  return below;
}

/// From `version` down to the snapshot `have`, whose deltas are shortest; nullopt where they do not
/// lead there.
std::optional<Chain> chain_from_snapshot(const std::string& dir, const Manifest& top,
                                         const ModelSnapshot* have) {
  if (have == nullptr) return std::nullopt;
  Chain chain;
  Manifest at = top;
  while (at.version > have->manifest.version && at.delta) {
    auto below = manifest_below(dir, at);
    if (!below) return std::nullopt;
    chain.deltas.push_back(std::move(at));
    at = *std::move(below);
  }
  if (at.version != have->manifest.version || at.identity() != have->manifest.identity()) {
    return std::nullopt;
  }
  return chain;
}

base::Result<Chain> chain_from_full(const std::string& dir, const Manifest& top) {
  Chain chain;
  Manifest at = top;
  while (!at.full) {
    SF_ASSIGN(Manifest below, manifest_below(dir, at));
    chain.deltas.push_back(std::move(at));
    at = std::move(below);
  }
  chain.full = std::move(at);
  return chain;
}

base::Result<Model> read_delta(const std::string& dir, const Manifest& manifest,
                               const Model& before) {
  const auto refuse = [&](const base::Error& error) {
    return fail(error.code, "version {}: {}", manifest.version, error.message);
  };
  const auto bytes = read_checked(delta_path(dir, manifest.version), manifest.delta->file);
  if (!bytes) return refuse(bytes.error());
  auto model = apply_delta(before, *bytes);
  if (!model) return refuse(model.error());
  return model;
}

/// The model at the chain's end, not yet verified by its canaries.
base::Result<std::shared_ptr<ModelSnapshot>> follow(const std::string& dir, const Chain& chain,
                                                    const ModelSnapshot* have) {
  auto snapshot = std::make_shared<ModelSnapshot>();
  if (chain.full) {
    SF_ASSIGN(const std::string bytes,
              read_checked(full_path(dir, chain.full->version), *chain.full->full));
    SF_ASSIGN(snapshot->model, decode_model(bytes));
    snapshot->manifest = *chain.full;
  } else {
    snapshot->model = have->model;
    snapshot->manifest = have->manifest;
  }
  for (auto delta = chain.deltas.rbegin(); delta != chain.deltas.rend(); ++delta) {
    SF_ASSIGN(snapshot->model, read_delta(dir, *delta, snapshot->model));
    snapshot->manifest = *delta;
    const std::int64_t arrival = delta->arrivals.first_ms;
    if (!chain.full && arrival > 0 &&
        (snapshot->first_arrival_ms == 0 || arrival < snapshot->first_arrival_ms)) {
      snapshot->first_arrival_ms = arrival;
    }
  }
  return snapshot;
}

base::Result<void> verify(ModelSnapshot& snapshot) {
  SF_ASSIGN(snapshot.ranker, make_ranker(snapshot.model.config));
  SF_ASSIGN(const auto logits, score_canaries(snapshot.model, *snapshot.ranker));
  return check_canaries(snapshot.manifest.canary_logits, logits);
}

}  // namespace

base::Result<std::optional<std::uint64_t>> ModelStoreReader::pinned() const {
  return read_pointer(dir_ + "/PINNED");
}

base::Result<std::optional<std::uint64_t>> ModelStoreReader::wanted() const {
  SF_ASSIGN(const auto pin, pinned());
  if (pin) return pin;
  return read_pointer(dir_ + "/CURRENT");
}

// From the snapshot that is there, as every second; where that does not work, from a full file,
// which also heals a damaged delta below it.
base::Result<ModelStoreReader::Snapshot> ModelStoreReader::load_verified(
    std::uint64_t version) const {
  SF_ASSIGN(const Manifest top, read_manifest(dir_, version));
  const auto from = [&](const Chain& chain) -> base::Result<Snapshot> {
    SF_ASSIGN(const std::shared_ptr<ModelSnapshot> snapshot, follow(dir_, chain, newest_.get()));
    SF_TRY(verify(*snapshot));
    return Snapshot(snapshot);
  };
  base::Result<Snapshot> followed = Snapshot();
  const std::optional<Chain> deltas = chain_from_snapshot(dir_, top, newest_.get());
  if (deltas) {
    followed = from(*deltas);
    if (followed) return followed;
  }
  auto whole = chain_from_full(dir_, top);
  if (!whole && !followed) return followed;  // what is wrong with the delta, not below it
  if (!whole) return fail(whole.error());
  return from(*whole);
}

base::Result<std::shared_ptr<const ModelSnapshot>> ModelStoreReader::load(
    std::uint64_t version) const {
  auto snapshot = load_verified(version);
  if (!snapshot) {
    return fail(snapshot.error().code, "model version {} refused: {}", version,
                snapshot.error().message);
  }
  return snapshot;
}

base::Result<std::shared_ptr<const ModelSnapshot>> ModelStoreReader::poll() {
  SF_ASSIGN(const auto version, wanted());
  if (!version) return Snapshot();
  const auto manifest_text = [&] {
    return read_file(manifest_path(dir_, *version)).value_or(std::string());
  };
  if (*version == last_polled_) {
    if (refused_manifest_.empty() || manifest_text() == refused_manifest_) return Snapshot();
  }
  const std::string before = manifest_text();
  const bool pinned_now = verified_ && verified_->manifest.version == *version;
  base::Result<Snapshot> snapshot = pinned_now ? verified_ : load(*version);
  verified_.reset();
  // A version may be pruned between the two reads; the next poll sees its successor.
  if (!snapshot && snapshot.error().code == ErrorCode::kNotFound) {
    const auto again = wanted();
    if (again && *again && **again != *version) return Snapshot();
  }
  // What the disk would not give now it may give next time; a version that is wrong stays wrong.
  if (snapshot || snapshot.error().code != ErrorCode::kStorage) {
    last_polled_ = *version;
    refused_manifest_ = snapshot ? std::string() : before;
  }
  if (snapshot) newest_ = *snapshot;
  return snapshot;
}

base::Result<std::vector<Manifest>> ModelStoreReader::list() const {
  SF_ASSIGN(const std::vector<std::uint64_t> versions, list_versions(dir_));
  std::vector<Manifest> manifests;
  for (const std::uint64_t version : versions) {
    if (auto manifest = read_manifest(dir_, version)) manifests.push_back(*std::move(manifest));
  }
  return manifests;
}

base::Result<std::vector<base::Error>> ModelStoreReader::unreadable() const {
  SF_ASSIGN(const std::vector<std::uint64_t> versions, list_versions(dir_));
  std::vector<base::Error> errors;
  for (const std::uint64_t version : versions) {
    const auto manifest = read_manifest(dir_, version);
    // Not found: removed since it was listed.
    if (!manifest && manifest.error().code != ErrorCode::kNotFound) {
      errors.push_back(manifest.error());
    }
  }
  return errors;
}

base::Result<void> ModelStoreReader::pin(std::uint64_t version) {
  SF_TRY(read_manifest(dir_, version));
  SF_ASSIGN(const StoreLock lock, StoreLock::wait(pin_lock_path(dir_)));
  SF_ASSIGN(verified_, load(version));
  return replace_file(dir_ + "/PINNED", std::to_string(version) + "\n");
}

base::Result<void> ModelStoreReader::unpin() {
  std::error_code error;
  const bool was_pinned = fs::remove(dir_ + "/PINNED", error);
  if (error) {
    return fail(ErrorCode::kStorage, "{}/PINNED: cannot remove: {}", dir_, error.message());
  }
  if (!was_pinned) return {};
  return sync_folder(dir_);
}

base::Result<ModelStoreReader::Rollback> ModelStoreReader::rollback() {
  SF_ASSIGN(const auto version, wanted());
  SF_ASSIGN(const std::vector<std::uint64_t> versions, list_versions(dir_));
  Rollback rollback;
  for (std::size_t i = versions.size(); version && i-- > 0;) {
    if (versions[i] >= *version) continue;
    // An older version that would be refused is no help; go on to the one before.
    const auto pinned = pin(versions[i]);
    rollback.version = versions[i];
    if (pinned) return rollback;
    // A disk that fails says nothing of the version.
    if (pinned.error().code == ErrorCode::kStorage) return fail(pinned.error());
    rollback.skipped.push_back(pinned.error().message);
  }
  return fail(ErrorCode::kNotFound, "{}: no older model version to roll back to{}{}", dir_,
              rollback.skipped.empty() ? "" : ": ", fmt::join(rollback.skipped, "; "));
}

base::Result<std::uint64_t> ModelStoreReader::export_to(const std::string& out_dir) const {
  SF_ASSIGN(const auto version, wanted());
  if (!version) return fail(ErrorCode::kNotFound, "{}: no model version yet", dir_);
  SF_ASSIGN(const Snapshot snapshot, load(*version));
  const std::string bytes = encode_model(snapshot->model);
  Manifest manifest = snapshot->manifest;
  manifest.full = {bytes.size(), base::xxh3_64(bytes)};
  manifest.delta.reset();
  SF_TRY(make_folder(out_dir));
  SF_TRY(replace_file(out_dir + "/model.safetensors", bytes));
  SF_TRY(replace_file(out_dir + "/manifest.json", manifest_to_json(manifest)));
  return *version;
}

}  // namespace sirenfeed::model
