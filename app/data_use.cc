#include "app/data_use.h"

#include <filesystem>

#include "app/run_file.h"

namespace sirenfeed::app {
namespace {

namespace fs = std::filesystem;
using base::ErrorCode;
using base::fail;

base::Result<void> check_whole(const std::string& data_dir) {
  if (fs::exists(restoring_file(data_dir))) {
    return fail(ErrorCode::kUnavailable,
                "{}: a restore was ended before it was through: run `sirenfeed restore` with the "
                "same backup again ({} is there until then)",
                data_dir, restoring_file(data_dir));
  }
  const std::string state = data_dir + "/state";
  if (!fs::exists(state) && fs::exists(state + ".replaced")) {
    return fail(ErrorCode::kUnavailable,
                "{}: a rebuild was ended before it was through: run `sirenfeed rebuild` again "
                "({}.replaced is the state before it)",
                data_dir, state);
  }
  return {};
}

base::Result<FolderLock> lock_alone(const std::string& data_dir) {
  auto lock = FolderLock::take(data_dir);
  if (lock || lock.error().code != ErrorCode::kLocked) return lock;
  if (const auto owner = find_running(data_dir)) {
    return fail(ErrorCode::kLocked, "{}: process {} uses this folder; stop it first", data_dir,
                owner->pid);
  }
  return fail(ErrorCode::kLocked, "{}: another process uses this folder; stop it first", data_dir);
}

}  // namespace

std::string restoring_file(const std::string& data_dir) { return data_dir + "/restoring.json"; }

base::Result<DataUse> DataUse::share(const std::string& data_dir) {
  auto lock = FolderLock::take(data_dir, FolderLock::Kind::kShared);
  if (!lock && lock.error().code == ErrorCode::kLocked) {
    return fail(ErrorCode::kLocked,
                "{}: `sirenfeed restore` or `sirenfeed rebuild` works on this folder; wait for its "
                "end",
                data_dir);
  }
  if (!lock) return fail(lock.error());
  SF_TRY(check_whole(data_dir));
  return DataUse(*std::move(lock));
}

base::Result<DataUse> DataUse::share_log(const Settings& settings) {
  if (!settings.brokers.empty()) return DataUse();
  return share(settings.data_dir);
}

base::Result<DataUse> DataUse::alone(const std::string& data_dir) {
  SF_ASSIGN(FolderLock lock, lock_alone(data_dir));
  if (fs::exists(restoring_file(data_dir))) SF_TRY(check_whole(data_dir));
  return DataUse(std::move(lock));
}

base::Result<DataUse> DataUse::alone_to_restore(const std::string& data_dir) {
  SF_ASSIGN(FolderLock lock, lock_alone(data_dir));
  return DataUse(std::move(lock));
}

}  // namespace sirenfeed::app
