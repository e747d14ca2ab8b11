#pragma once
// TOML for the command line: `join_window_ms = 1` under `[features]` is the option
// --features.join_window_ms.
#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace sirenfeed::app {

/// CLI11 reads a section as a subcommand; here it is the first part of an option's name. And it
/// lets the file win over the environment; here an option whose variable is set is not read.
class FlatToml final : public CLI::ConfigTOML {
 public:
  [[nodiscard]] std::vector<CLI::ConfigItem> from_config(std::istream& input) const override;
};

}  // namespace sirenfeed::app
