#pragma once
// manifest.json of a backup (docs/FORMATS.md): the last file that a backup writes, so a folder
// without one is none.
#include <cstdint>
#include <string>
#include <vector>

#include "app/backup_files.h"
#include "base/clock.h"
#include "base/result.h"

namespace sirenfeed::app {

inline constexpr int kBackupFormat = 1;

struct BackupFile {
  std::string path;  // relative to the backup's folder
  std::uint64_t bytes = 0;
  std::uint64_t xxh3 = 0;
};

/// Where a restored state resumes: behind this record.
struct BackupPosition {
  std::string topic;
  std::int32_t partition = 0;
  std::int64_t offset = 0;
  base::UnixMs time_ms = 0;
};

struct BackupManifest {
  int format = kBackupFormat;
  std::string version;  // of the sirenfeed that made it
  std::string commit;
  std::string build;
  base::UnixMs created_ms = 0;
  int state_format = 0;            // of the store; 0: no state in it
  std::int32_t partitions = 0;     // that the state was made for
  std::vector<std::string> parts;  // folders in it: state, log, trainer, models
  std::vector<BackupPosition> positions;
  std::vector<BackupFile> files;

  [[nodiscard]] bool has(std::string_view part) const;
  [[nodiscard]] std::uint64_t bytes() const;
};

[[nodiscard]] std::string manifest_to_json(const BackupManifest& manifest);
/// kNotFound: no backup, or one that was not finished. kCorrupt: malformed, or of a newer format.
[[nodiscard]] base::Result<BackupManifest> read_backup_manifest(const std::string& dir);
/// What manifest_to_json() has made; `path` is for messages.
[[nodiscard]] base::Result<BackupManifest> parse_backup_manifest(const std::string& text,
                                                                 const std::string& path);
/// Everything below `dir` but the manifest.
[[nodiscard]] base::Result<std::vector<BackupFile>> sum_files(const std::string& dir,
                                                              const BytesDone& done);
/// Every file is there, whole and unchanged, and no other. kCorrupt names the first that is not.
[[nodiscard]] base::Result<void> verify_files(const std::string& dir,
                                              const BackupManifest& manifest,
                                              const BytesDone& done);

}  // namespace sirenfeed::app
