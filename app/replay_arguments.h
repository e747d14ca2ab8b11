#pragma once
// The options that say how a recorded input is read: the same for every command that reads one.
#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "app/settings.h"
#include "base/result.h"
#include "ingest/replay_reader.h"

namespace sirenfeed::app {

/// As they are spelled on the command line.
struct ReplayArguments {
  std::string format = "events";
  std::string items_file;
  std::string map;
  std::string items_map;
  std::string delimiter = ",";
  std::vector<std::string> exposure_types = ingest::ReplayOptions{}.exposure_types;
  std::optional<double> click_min;
  std::int64_t click_delay_ms = ingest::ReplayOptions{}.click_delay_ms;
};

/// Adds --format, --items, --map, … to a command; `arguments` outlives it.
void add_replay_arguments(CLI::App& command, ReplayArguments& arguments);

struct ReplayChoice {
  ingest::ReplayFormat format = ingest::ReplayFormat::kEvents;
  ingest::ReplayOptions options;
};
/// kInvalidArgument names the option.
[[nodiscard]] base::Result<ReplayChoice> replay_choice(const ReplayArguments& arguments,
                                                       const Settings& settings);

}  // namespace sirenfeed::app
