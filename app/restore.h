#pragma once
// A backup in the place of a data folder's parts.
//
// Everything is verified, and copied beside what is there, before anything is touched. Then
// restoring.json says that the parts are being exchanged (data_use.h): a folder that lies between
// two histories is none that a node may start on, and the next restore finishes what was begun.
#include <functional>
#include <string>

#include "app/backup_manifest.h"
#include "app/settings.h"
#include "base/result.h"

namespace sirenfeed::app {

/// Told before each step that changes the data folder: what will be done.
using RestoreStep = std::function<void(const std::string&)>;

/// Puts the backup of `dir` in the place of the data folder's parts, which no other process can
/// use meanwhile; the old ones go once all of the new ones are there durably. A restore that was
/// ended at any step changes nothing, or is finished here first: then `dir` need not be there, and
/// nothing else is done where it is the same backup. Tells its progress on stderr.
/// kAlreadyExists: the data folder is not empty and `replace` is not given; kLocked: a process uses
/// it.
base::Result<BackupManifest> restore_backup(const Settings& settings, const std::string& dir,
                                            bool replace, const RestoreStep& step = {});

}  // namespace sirenfeed::app
