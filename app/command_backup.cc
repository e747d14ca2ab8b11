// backup and restore: a node's folder as one consistent copy, and back.
#include <cstdio>
#include <memory>

#include "app/backup.h"
#include "app/command_line.h"
#include "app/restore.h"
#include "ingest/event_time.h"

namespace sirenfeed::app {
namespace {

struct RestoreOptions {
  std::string dir;
  bool replace = false;
};

void print_contents(const BackupManifest& manifest) {
  fmt::print("parts: {}\n", fmt::join(manifest.parts, ", "));
  for (const BackupPosition& at : manifest.positions) {
    fmt::print("  {}/{} up to offset {} ({})\n", at.topic, at.partition, at.offset,
               ingest::format_iso8601(at.time_ms));
  }
}

base::Result<void> run_backup(const Settings& settings, const std::string& dir) {
  SF_ASSIGN(const BackupManifest manifest, make_backup(settings, dir));
  fmt::print("{}: {} files, {} bytes, made by {} ({})\n", dir, manifest.files.size(),
             manifest.bytes(), manifest.version, manifest.commit);
  print_contents(manifest);
  return {};
}

base::Result<void> run_restore(const Settings& settings, const RestoreOptions& options) {
  SF_ASSIGN(const BackupManifest manifest, restore_backup(settings, options.dir, options.replace));
  fmt::print("{}: restored what {} ({}) backed up at {}\n", settings.data_dir, manifest.version,
             manifest.commit, ingest::format_iso8601(manifest.created_ms));
  print_contents(manifest);
  return {};
}

}  // namespace

void add_backup_commands(CommandLine& line) {
  auto target = std::make_shared<std::string>();
  CLI::App& backup = add_command(
      line, "backup", "Copy state, log, trainer and models, consistent with each other, into DIR",
      "  sirenfeed backup /backups/monday --data data\n"
      "  sirenfeed backup /backups/train --data train-data --models /models");
  backup.add_option("dir", *target, "A folder that is empty or does not exist")->required();
  backup.callback([&line, target] {
    line.action = [&line, target] { return run_backup(line.settings, *target); };
  });

  auto options = std::make_shared<RestoreOptions>();
  CLI::App& restore =
      add_command(line, "restore",
                  "Verify a backup and put it in the place of the data folder of a stopped node",
                  "  sirenfeed restore /backups/monday --data data\n"
                  "  sirenfeed restore /backups/monday --data data --replace");
  restore.add_option("dir", options->dir, "What backup has written")->required();
  restore.add_flag("--replace", options->replace, "Also when the data folder holds something");
  restore.callback([&line, options] {
    line.action = [&line, options] { return run_restore(line.settings, *options); };
  });
}

}  // namespace sirenfeed::app
