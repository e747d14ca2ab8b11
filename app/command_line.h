#pragma once
// What every subcommand's file (command_*.cc) is given: the root parser, the settings that options,
// TOML file and environment fill, and the place to put what the chosen subcommand does.
#include <CLI/CLI.hpp>
#include <functional>
#include <string>

#include "app/settings.h"
#include "base/result.h"

namespace sirenfeed::app {

struct CommandLine {
  CLI::App& root;
  Settings& settings;
  /// What the chosen subcommand changes in the settings before they are resolved; may be empty.
  std::function<base::Result<void>()> prepare;
  /// Set by the subcommand that was chosen. kInvalidArgument ends with exit code 2, others with 1.
  std::function<base::Result<void>()> action;
};

/// A subcommand whose --help closes with `examples`. Options that it does not know go to the root.
CLI::App& add_command(CommandLine& line, const std::string& name, const std::string& description,
                      const std::string& examples);

// One a file; each registers one subcommand (or one family of them).
void add_up_command(CommandLine& line);
void add_serve_command(CommandLine& line);
void add_train_command(CommandLine& line);
void add_publish_command(CommandLine& line);
void add_topics_command(CommandLine& line);
void add_simulate_command(CommandLine& line);
void add_evaluate_command(CommandLine& line);
void add_score_command(CommandLine& line);
void add_inspect_command(CommandLine& line);
void add_model_command(CommandLine& line);
void add_backup_commands(CommandLine& line);  // backup, restore
void add_rebuild_command(CommandLine& line);
void add_admin_commands(CommandLine& line);  // erase, takedown, close-windows, health
void add_dead_letters_command(CommandLine& line);
void add_config_command(CommandLine& line);

}  // namespace sirenfeed::app
