#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>

#include "base/hash.h"
#include "base/log.h"
#include "base/mutex.h"
#include "model/file_io.h"
#include "model/model_delta.h"
#include "model/model_file.h"
#include "model/model_store.h"
#include "model/store_files.h"

namespace sirenfeed::model {

namespace fs = std::filesystem;
using base::ErrorCode;
using base::fail;
using base::MutexLock;

namespace {

tl::unexpected<base::Error> not_published(const base::Error& error) {
  return fail(ErrorCode::kInternal, "not published: {}", error.message);
}

base::Result<void> check_model(std::string_view bytes) {
  SF_TRY(decode_model(bytes));
  return {};
}

}  // namespace

base::Result<void> ModelStoreConfig::validate() const {
  if (dir.empty()) return fail(ErrorCode::kInvalidArgument, "model store: dir is empty");
  if (keep_max == 0) return fail(ErrorCode::kInvalidArgument, "model.keep_max is 0, expected 1 on");
  if (full_interval.count() < 1) {
    return fail(ErrorCode::kInvalidArgument, "model.full_interval_ms is {}, expected 1 on",
                full_interval.count());
  }
  if (!(full_share > 0 && full_share <= 1000)) {
    return fail(ErrorCode::kInvalidArgument, "model.full_share is {}, expected above 0, to 1000",
                full_share);
  }
  if (deltas_max > 100'000) {
    return fail(ErrorCode::kInvalidArgument, "model store: deltas_max is {}, expected 0 to 100000",
                deltas_max);
  }
  return {};
}

struct ModelStoreWriter::Impl {
  Impl(ModelStoreConfig c, StoreLock l) : config(std::move(c)), lock(std::move(l)) {}

  /// How a version on the disk can be read.
  struct Link {
    bool full = false;
    std::uint64_t base = 0;  // 0: it has no delta
  };
  struct Newest {
    Manifest manifest;
    Model model;  // shares its pages with the publisher's
  };

  const ModelStoreConfig config;
  const StoreLock lock;
  mutable base::Mutex mutex;
  std::uint64_t last_version SF_GUARDED_BY(mutex) = 0;
  std::map<std::uint64_t, Link> links SF_GUARDED_BY(mutex);
  std::optional<Newest> newest SF_GUARDED_BY(mutex);    // published by this process
  std::uint64_t full_in_work SF_GUARDED_BY(mutex) = 0;  // version that write_full is at
  std::int64_t full_ms SF_GUARDED_BY(mutex) = 0;        // publisher's clock at the last full file
  std::uint64_t full_bytes SF_GUARDED_BY(mutex) = 0;    // of it
  std::map<std::uint64_t, std::uint64_t> deltas SF_GUARDED_BY(mutex);  // bytes, since that file

  /// A version's payload: one of the two files.
  struct Payload {
    bool is_delta = false;
    std::string bytes;
    std::vector<double> canary_logits;
  };

  base::Result<void> take_up_folder();
  base::Result<std::vector<double>> canaries_of(const Model& model) const;
  base::Result<Payload> make_payload(const Model& model, const std::optional<Newest>& before) const;
  base::Result<void> write_version(const Payload& payload, const Manifest& manifest) const;
  void note_published(const Payload& payload, const Manifest& manifest, const Model& model);
  std::set<std::uint64_t> needed(std::uint64_t pinned) const SF_REQUIRES(mutex);
  void prune();
};

ModelStoreWriter::ModelStoreWriter(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ModelStoreWriter::~ModelStoreWriter() = default;
ModelStoreWriter::ModelStoreWriter(ModelStoreWriter&&) noexcept = default;
ModelStoreWriter& ModelStoreWriter::operator=(ModelStoreWriter&&) noexcept = default;

base::Result<ModelStoreWriter> ModelStoreWriter::open(ModelStoreConfig config) {
  SF_TRY(config.validate());
  SF_TRY(make_folder(versions_dir(config.dir)));
  auto lock = StoreLock::take(writer_lock_path(config.dir));
  if (!lock && lock.error().code == base::ErrorCode::kLocked) {
    return base::fail(base::ErrorCode::kLocked,
                      "{}: another process publishes models into this folder; stop it, or give one "
                      "of the two a folder of its own (--models)",
                      config.dir);
  }
  if (!lock) return base::fail(lock.error());
  auto impl = std::make_unique<Impl>(std::move(config), *std::move(lock));
  SF_TRY(impl->take_up_folder());
  return ModelStoreWriter(std::move(impl));
}

base::Result<void> ModelStoreWriter::Impl::take_up_folder() {
  SF_ASSIGN(const std::vector<std::uint64_t> versions, list_versions(config.dir));
  auto current = read_pointer(config.dir + "/CURRENT");
  if (!current) {
    base::log_warning("{}; the next version replaces it", current.error().message);
    current = std::optional<std::uint64_t>();
  }
  // What a crash left half written or half removed.
  std::error_code ignored;
  fs::remove(config.dir + "/CURRENT.new", ignored);
  fs::remove_all(versions_dir(config.dir) + "/writing", ignored);
  fs::remove_all(versions_dir(config.dir) + "/removing", ignored);
  MutexLock lock(mutex);
  for (const std::uint64_t version : versions) {
    Link& link = links[version];
    if (const auto manifest = read_manifest(config.dir, version)) {
      link = {manifest->full.has_value(), manifest->delta ? manifest->delta->base : 0};
    }
  }
  last_version = std::max(versions.empty() ? 0 : versions.back(), current->value_or(0));
  return {};
}

std::uint64_t ModelStoreWriter::last_version() const {
  MutexLock lock(impl_->mutex);
  return impl_->last_version;
}

base::Result<std::vector<double>> ModelStoreWriter::Impl::canaries_of(const Model& model) const {
  SF_ASSIGN(const auto ranker, make_ranker(model.config));
  return score_canaries(model, *ranker);
}

// What readers will refuse is not published: the payload passes the same checks first, on its own
// bytes.
base::Result<ModelStoreWriter::Impl::Payload> ModelStoreWriter::Impl::make_payload(
    const Model& model, const std::optional<Newest>& before) const {
  Payload payload;
  if (before && same_shape(before->model.config, model.config)) {
    payload.bytes = encode_delta(before->model, model);
    payload.is_delta = payload.bytes.size() <= full_file_bytes(model) / 2;
  }
  if (!payload.is_delta) payload.bytes = encode_model(model);
  if (const auto checked =
          payload.is_delta ? check_delta(before->model, payload.bytes) : check_model(payload.bytes);
      !checked) {
    return not_published(checked.error());
  }
  auto logits = canaries_of(model);
  if (!logits) return not_published(logits.error());
  payload.canary_logits = *std::move(logits);
  return payload;
}

base::Result<void> ModelStoreWriter::Impl::write_version(const Payload& payload,
                                                         const Manifest& manifest) const {
  const std::string writing = versions_dir(config.dir) + "/writing";
  SF_TRY(make_folder(writing));
  SF_TRY(write_file(writing + (payload.is_delta ? "/delta.safetensors" : "/model.safetensors"),
                    payload.bytes));
  SF_TRY(write_file(writing + "/manifest.json", manifest_to_json(manifest)));
  SF_TRY(sync_folder(writing));
  std::error_code error;
  // An attempt that failed after its rename left a version that CURRENT never named.
  fs::remove_all(version_dir(config.dir, manifest.version), error);
  fs::rename(writing, version_dir(config.dir, manifest.version), error);
  if (error) {
    return fail(ErrorCode::kStorage, "{}: cannot rename into place: {}", writing, error.message());
  }
  return sync_folder(versions_dir(config.dir));
}

void ModelStoreWriter::Impl::note_published(const Payload& payload, const Manifest& manifest,
                                            const Model& model) {
  MutexLock lock(mutex);
  last_version = manifest.version;
  links[manifest.version] = {!payload.is_delta, manifest.delta ? manifest.delta->base : 0};
  newest = Newest{manifest, model};
  if (payload.is_delta) {
    deltas[manifest.version] = payload.bytes.size();
  } else {
    full_ms = manifest.created_ms;
    full_bytes = payload.bytes.size();
    deltas.clear();
  }
}

base::Result<std::uint64_t> ModelStoreWriter::publish(const Model& model, std::int64_t now_ms,
                                                      const std::string& metrics_json,
                                                      const Arrivals& arrivals) {
  Impl& impl = *impl_;
  std::optional<Impl::Newest> before;
  Manifest manifest;
  {
    MutexLock lock(impl.mutex);
    manifest.version = impl.last_version + 1;
    // Version numbers may have gone on without this process's newest: a failed attempt is not one.
    const bool follows = impl.newest && impl.newest->manifest.version == impl.last_version;
    if (follows && impl.deltas.size() < impl.config.deltas_max) before = impl.newest;
  }
  SF_ASSIGN(const Impl::Payload payload, impl.make_payload(model, before));
  manifest.created_ms = now_ms;
  manifest.variant = variant_name(model.config.variant);
  manifest.canary_logits = payload.canary_logits;
  manifest.arrivals = arrivals;
  manifest.metrics_json = metrics_json;
  const StoredFile file{payload.bytes.size(), base::xxh3_64(payload.bytes)};
  if (payload.is_delta) {
    manifest.delta = {before->manifest.version, before->manifest.identity(), file};
  } else {
    manifest.full = file;
  }
  SF_TRY(impl.write_version(payload, manifest));
  impl.note_published(payload, manifest, model);
  SF_TRY(replace_file(impl.config.dir + "/CURRENT", std::to_string(manifest.version) + "\n"));
  impl.prune();
  return manifest.version;
}

bool ModelStoreWriter::full_due(std::int64_t now_ms) const {
  MutexLock lock(impl_->mutex);
  if (impl_->deltas.empty() || impl_->full_in_work != 0) return false;
  double bytes = 0;
  for (const auto& [version, delta_bytes] : impl_->deltas) {
    bytes += static_cast<double>(delta_bytes);
  }
  return now_ms - impl_->full_ms >= impl_->config.full_interval.count() ||
         bytes >= impl_->config.full_share * static_cast<double>(impl_->full_bytes);
}

base::Result<void> ModelStoreWriter::write_full(std::int64_t now_ms) {
  Impl& impl = *impl_;
  std::optional<Impl::Newest> of;
  {
    MutexLock lock(impl.mutex);
    if (!impl.newest || impl.newest->manifest.full || impl.full_in_work != 0) return {};
    of = impl.newest;
    impl.full_in_work = of->manifest.version;
  }
  const auto write = [&]() -> base::Result<void> {
    const std::string bytes = encode_model(of->model);
    of->manifest.full = {bytes.size(), base::xxh3_64(bytes)};
    // Until the manifest names it, the file does not exist for anyone.
    SF_TRY(replace_file(full_path(impl.config.dir, of->manifest.version), bytes));
    return replace_file(manifest_path(impl.config.dir, of->manifest.version),
                        manifest_to_json(of->manifest));
  };
  const base::Result<void> written = write();
  MutexLock lock(impl.mutex);
  impl.full_in_work = 0;
  if (!written) return written;
  const std::uint64_t version = of->manifest.version;
  impl.links[version].full = true;
  if (impl.newest && impl.newest->manifest.version == version) {
    impl.newest->manifest.full = of->manifest.full;
  }
  impl.full_ms = now_ms;
  impl.full_bytes = of->manifest.full->bytes;
  impl.deltas.erase(impl.deltas.begin(), impl.deltas.upper_bound(version));
  return {};
}

/// The versions that stay: the newest, those that an operator or a reader is told to use, and what
/// their deltas build on, down to a full file.
std::set<std::uint64_t> ModelStoreWriter::Impl::needed(std::uint64_t pinned) const {
  std::set<std::uint64_t> kept;
  const auto keep = [&](std::uint64_t version) {
    for (auto link = links.find(version); link != links.end(); link = links.find(version)) {
      kept.insert(version);
      if (link->second.full || link->second.base >= version) return;
      version = link->second.base;
    }
  };
  std::size_t newest_kept = 0;
  for (auto link = links.rbegin(); link != links.rend() && newest_kept < config.keep_max; ++link) {
    keep(link->first);
    ++newest_kept;
  }
  keep(last_version);
  keep(full_in_work);
  keep(pinned);
  return kept;
}

/// A version that cannot be removed now is tried again after the next publication.
void ModelStoreWriter::Impl::prune() {
  const auto pin_lock = StoreLock::wait(pin_lock_path(config.dir));
  if (!pin_lock) return;
  const auto pinned = read_pointer(config.dir + "/PINNED");
  if (!pinned) return;  // nobody can tell what it held
  std::vector<std::uint64_t> gone;
  {
    MutexLock lock(mutex);
    const std::set<std::uint64_t> kept = needed(pinned->value_or(0));
    for (const auto& [number, link] : links) {
      if (!kept.contains(number)) gone.push_back(number);
    }
  }
  const std::string removing = versions_dir(config.dir) + "/removing";
  for (const std::uint64_t version : gone) {
    std::error_code error;
    fs::remove_all(removing, error);
    // Out of the readers' sight at once: a crash leaves no version with half its files.
    fs::rename(version_dir(config.dir, version), removing, error);
    if (error && error != std::errc::no_such_file_or_directory) continue;
    fs::remove_all(removing, error);
    MutexLock lock(mutex);
    links.erase(version);
  }
}

}  // namespace sirenfeed::model
