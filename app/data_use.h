#pragma once
// Who may work on a data folder, and whether it is whole.
//
// A node's processes and the commands that open a part of the folder share it: what none of two may
// open at once has a lock of its own (state, log, trainer), so `serve` and `train` can have one
// folder. What puts other parts in the place of these, restore and rebuild, has the folder alone
// from its first look at it to its end.
#include <optional>
#include <string>

#include "app/folder_lock.h"
#include "app/settings.h"
#include "base/result.h"

namespace sirenfeed::app {

/// While there is this file, parts of the folder are a backup's and others are not yet
/// (docs/FORMATS.md): restore writes it before the first is put in place and removes it at the end.
[[nodiscard]] std::string restoring_file(const std::string& data_dir);

/// Makes the folder when missing; held (flock on DATA/LOCK) until it is destroyed. kLocked: another
/// process must end first; kUnavailable: a restore or rebuild was ended halfway, and which command
/// finishes it.
class DataUse {
 public:
  /// Before anything in the folder is opened.
  static base::Result<DataUse> share(const std::string& data_dir);
  /// Likewise, of a command that opens the log alone: with Kafka there is nothing to share.
  static base::Result<DataUse> share_log(const Settings& settings);
  static base::Result<DataUse> alone(const std::string& data_dir);
  /// alone(), also of a folder that a restore was ended in.
  static base::Result<DataUse> alone_to_restore(const std::string& data_dir);

 private:
  DataUse() = default;
  explicit DataUse(FolderLock lock) : lock_(std::move(lock)) {}
  std::optional<FolderLock> lock_;
};

}  // namespace sirenfeed::app
