#include "app/cli.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <map>

#include "app/command_line.h"
#include "app/flat_toml.h"
#include "app/settings_options.h"
#include "base/build_info.h"

namespace sirenfeed::app {
namespace {

base::Result<void> configure_logging(const Settings& settings) {
  static const std::map<std::string, base::LogLevel> levels = {
      {"debug", base::LogLevel::kDebug},
      {"info", base::LogLevel::kInfo},
      {"warning", base::LogLevel::kWarning},
      {"error", base::LogLevel::kError}};
  const auto level = levels.find(settings.log_level);
  if (level == levels.end()) {
    return base::fail(base::ErrorCode::kInvalidArgument,
                      "--log_level: expected debug, info, warning or error, got '{}'",
                      settings.log_level);
  }
  base::configure_log({.level = level->second, .json = settings.log_json});
  return {};
}

void add_commands(CommandLine& line) {
  add_up_command(line);
  add_serve_command(line);
  add_train_command(line);
  add_publish_command(line);
  add_topics_command(line);
  add_simulate_command(line);
  add_evaluate_command(line);
  add_score_command(line);
  add_inspect_command(line);
  add_model_command(line);
  add_backup_commands(line);
  add_rebuild_command(line);
  add_admin_commands(line);
  add_dead_letters_command(line);
  add_config_command(line);
}

base::Result<void> run_action(CommandLine& line) {
  SF_TRY(configure_logging(line.settings));
  if (line.prepare) SF_TRY(line.prepare());
  SF_TRY(line.settings.resolve());
  return line.action();
}

}  // namespace

CLI::App& add_command(CommandLine& line, const std::string& name, const std::string& description,
                      const std::string& examples) {
  CLI::App* command = line.root.add_subcommand(name, description);
  command->fallthrough();
  command->footer(
      "Settings such as --data, --http, --brokers (see sirenfeed --help) go with every "
      "command.\n\nExamples:\n" +
      examples);
  return *command;
}

int run(int argc, char** argv) {
  CLI::App cli("Sirenfeed: a stream of impressions and clicks in, ranked feeds out", "sirenfeed");
  cli.set_version_flag("--version", std::string("sirenfeed ") + base::kVersion + " (" +
                                        base::kCommit + ", " + base::kBuildType + ")");
  Settings settings;
  CommandLine line{cli, settings, {}, {}};
  cli.config_formatter(std::make_shared<FlatToml>());
  // CLI11 reads the file before it looks at an option's variable, so this one is read here.
  const char* config_file = std::getenv("SIRENFEED_CONFIG");
  cli.set_config("--config", config_file == nullptr ? "" : config_file,
                 "TOML file with the settings below", config_file != nullptr)
      ->envname("SIRENFEED_CONFIG");
  cli.require_subcommand(1);
  add_settings(cli, settings);
  add_commands(line);
  refuse_negative_counts(cli);
  try {
    cli.parse(argc, argv);
  } catch (const CLI::RequiredError& error) {
    const std::vector<std::string> unknown = cli.remaining();
    if (unknown.empty()) return cli.exit(error) == 0 ? kExitDone : kExitWrongUse;
    fmt::print(stderr, "sirenfeed: there is no command '{}'; see sirenfeed --help\n", unknown[0]);
    return kExitWrongUse;
  } catch (const CLI::ParseError& error) {
    return cli.exit(error) == 0 ? kExitDone : kExitWrongUse;
  }
  const base::Result<void> done = run_action(line);
  if (done) return kExitDone;
  std::fflush(stdout);
  fmt::print(stderr, "sirenfeed: {}\n", done.error().message);
  return done.error().code == base::ErrorCode::kInvalidArgument ? kExitWrongUse : kExitFailed;
}

}  // namespace sirenfeed::app
