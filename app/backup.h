#pragma once
// A node's folder as one consistent copy (restore.h puts it back).
//
// What makes the parts agree: the trainer's checkpoint is taken first, then the ends of the topics
// that the state writes (examples, dead letters), then the state, then the ends of its inputs. So
// the trainer has learned nothing that the log of the backup lacks, the log holds no example that
// the state does not know of, and all that the state has applied. Nothing leaves the outbox between
// those two steps: what the state has made is in its own copy or in the log's. A state restored
// beside a log that is further (Kafka) begins the next epoch (features/align_examples.h).
#include <string>

#include "app/backup_manifest.h"
#include "app/settings.h"
#include "base/result.h"
#include "features/feature_state.h"
#include "ingest/event_log.h"

namespace sirenfeed::app {

/// The part of the process that owns the state: DIR/state and, where there is a `log` (the embedded
/// one in `log_dir`), DIR/log. Neither may exist. Threads: any, while events are
/// applied.
base::Result<void> back_up_owned(const features::FeatureState& state, ingest::EventLog* log,
                                 const std::string& log_dir, const std::string& dir);

/// Everything that the data folder (and --models) holds into `dir`, which must be absent or empty;
/// through the process that owns the folder, or offline where there is none. Tells its progress on
/// stderr. After a failure `dir` is as it was. kNotFound: there is nothing to back up.
base::Result<BackupManifest> make_backup(const Settings& settings, const std::string& dir);

}  // namespace sirenfeed::app
