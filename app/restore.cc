#include "app/restore.h"

#include <filesystem>
#include <optional>
#include <utility>
#include <vector>

#include "app/data_use.h"
#include "app/folder_lock.h"
#include "app/progress_line.h"
#include "base/log.h"
#include "features/store.h"
#include "features/stored_state.h"
#include "model/file_io.h"
#include "model/store_files.h"

namespace sirenfeed::app {
namespace {

namespace fs = std::filesystem;
using base::ErrorCode;
using base::fail;

struct Part {
  std::string name;
  std::string place;
  [[nodiscard]] std::string staged() const { return place + ".restoring"; }
  [[nodiscard]] std::string old() const { return place + ".replaced"; }
  /// Models may lie in a folder that others share: only a backup that has some touches them.
  [[nodiscard]] bool is_shared() const { return name == "models"; }
};

std::vector<Part> parts_of(const Settings& settings) {
  return {{"log", settings.log_dir()},
          {"state", settings.state_dir()},
          {"trainer", settings.trainer_dir()},
          {"models", settings.models_dir()}};
}

/// Of a process that does not know of DATA/LOCK.
base::Result<void> check_unused(const Settings& settings) {
  SF_TRY(features::Store::check_unused(settings.state_dir()));
  for (const std::string& dir : {settings.log_dir(), settings.trainer_dir()}) {
    if (fs::exists(dir)) SF_TRY(FolderLock::take(dir));
  }
  return {};
}

/// A trainer with a data folder of its own may publish there.
base::Result<std::optional<model::StoreLock>> lock_models(const Settings& settings,
                                                          const BackupManifest& manifest) {
  const std::string dir = settings.models_dir();
  if (!manifest.has("models") || is_empty_folder(dir)) return std::nullopt;
  SF_ASSIGN(model::StoreLock lock, model::StoreLock::take(model::writer_lock_path(dir)));
  return std::optional<model::StoreLock>(std::move(lock));
}

base::Result<void> check_room(const Settings& settings, const BackupManifest& manifest,
                              bool replace) {
  for (const Part& part : parts_of(settings)) {
    if (part.is_shared() && !manifest.has(part.name)) continue;
    if (is_mount_point(part.place)) {
      return fail(ErrorCode::kInvalidArgument,
                  "{}: is a mount point, which nothing can take the place of; name a folder in it",
                  part.place);
    }
    if (replace || is_empty_folder(part.place)) continue;
    return fail(ErrorCode::kAlreadyExists,
                "{}: is not empty; --replace puts the backup in the place of what is there",
                part.place);
  }
  return {};
}

base::Result<void> verify(const std::string& dir, const BackupManifest& manifest) {
  ProgressLine line("verifying");
  SF_TRY(verify_files(dir, manifest, line.bytes_of(manifest.bytes())));
  if (!manifest.has("state")) return {};
  features::StoreConfig store;
  store.dir = dir + "/state";
  SF_TRY(features::read_stored_state(store));
  return {};
}

base::Result<void> stage(const std::string& dir, const BackupManifest& manifest, const Part& part,
                         const BytesDone& done) {
  std::error_code ignored;
  fs::create_directories(part.staged(), ignored);
  for (const BackupFile& file : manifest.files) {
    if (!file.path.starts_with(part.name + "/")) continue;
    const fs::path target =
        fs::path(part.staged()) / fs::path(file.path).lexically_relative(part.name);
    SF_TRY(copy_durably(fs::path(dir) / file.path, target, file.bytes, done));
  }
  return sync_folders(part.staged());
}

void remove_staged(const Settings& settings) {
  std::error_code ignored;
  for (const Part& part : parts_of(settings)) fs::remove_all(part.staged(), ignored);
}

base::Result<void> stage_all(const Settings& settings, const std::string& dir,
                             const BackupManifest& manifest) {
  remove_staged(settings);  // of a restore that ended before it had all
  ProgressLine line("copying");
  const BytesDone done = line.bytes_of(manifest.bytes());
  for (const Part& part : parts_of(settings)) {
    if (!manifest.has(part.name)) continue;
    if (const auto staged = stage(dir, manifest, part, done); !staged) {
      remove_staged(settings);
      return staged;
    }
  }
  return {};
}

base::Result<void> move_folder(const std::string& from, const std::string& to) {
  std::error_code error;
  fs::rename(from, to, error);
  if (error) {
    return fail(ErrorCode::kStorage, "{}: cannot be put in the place of {}: {}", from, to,
                error.message());
  }
  return model::sync_folder(fs::absolute(to).parent_path().string());
}

void remove_old(const Part& part) {
  std::error_code error;
  fs::remove_all(part.old(), error);
  if (error) base::log_warning("{}: cannot be removed: {}", part.old(), error.message());
}

/// Two renames a part rather than an exchange, after which a second run could not tell the new one
/// from the old one: as long as there is a staged part, it is not in its place. Nothing looks in
/// between, for restoring.json is there.
base::Result<void> put_in_place(const Settings& settings, const BackupManifest& manifest,
                                const RestoreStep& step) {
  for (const Part& part : parts_of(settings)) {
    const bool restored = manifest.has(part.name);
    if (restored ? !fs::exists(part.staged()) : part.is_shared()) continue;
    if (fs::exists(part.place)) {  // what is not of the backup is of another history
      step(fmt::format("{}: the old one moves away", part.name));
      remove_old(part);
      SF_TRY(move_folder(part.place, part.old()));
    }
    if (!restored) continue;
    step(fmt::format("{}: the new one gets its place", part.name));
    SF_TRY(move_folder(part.staged(), part.place));
  }
  for (const Part& part : parts_of(settings)) {
    if (!fs::exists(part.old())) continue;
    step(fmt::format("{}: the old one is removed", part.name));
    remove_old(part);
    SF_TRY(model::sync_folder(fs::absolute(part.place).parent_path().string()));
  }
  step("restoring.json is removed");
  std::error_code error;
  fs::remove(restoring_file(settings.data_dir), error);
  if (error) {
    return fail(ErrorCode::kStorage, "{}: cannot be removed: {}", restoring_file(settings.data_dir),
                error.message());
  }
  return model::sync_folder(settings.data_dir);
}

}  // namespace

base::Result<BackupManifest> restore_backup(const Settings& settings, const std::string& dir,
                                            bool replace, const RestoreStep& step) {
  const auto told = [&](const std::string& what) {
    if (step) step(what);
  };
  const std::string marker = restoring_file(settings.data_dir);
  const auto manifest = read_backup_manifest(dir);
  if (!manifest && !fs::exists(marker)) return manifest;
  SF_ASSIGN(const DataUse use, DataUse::alone_to_restore(settings.data_dir));
  SF_TRY(check_unused(settings));
  if (fs::exists(marker)) {
    SF_ASSIGN(const std::string text, model::read_file(marker));
    SF_ASSIGN(const BackupManifest begun, parse_backup_manifest(text, marker));
    SF_ASSIGN(const auto models, lock_models(settings, begun));
    base::log_info("{}: finishing the restore that was begun", settings.data_dir);
    SF_TRY(put_in_place(settings, begun, told));
    if (!manifest || manifest_to_json(*manifest) == text) return begun;
  }
  SF_TRY(check_room(settings, *manifest, replace));
  SF_ASSIGN(const auto models, lock_models(settings, *manifest));
  SF_TRY(verify(dir, *manifest));
  told("the backup is copied beside what is there");
  SF_TRY(stage_all(settings, dir, *manifest));
  told("restoring.json is written");
  SF_TRY(model::replace_file(marker, manifest_to_json(*manifest)));
  SF_TRY(put_in_place(settings, *manifest, told));
  return *manifest;
}

}  // namespace sirenfeed::app
