#pragma once
#include <CLI/CLI.hpp>

#include "app/settings.h"

namespace sirenfeed::app {

/// Declares every setting as an option of the root, `--section.name` where a folder owns it. Each
/// is also a key of the TOML file (`[section]` `name`) and an environment variable
/// SIRENFEED_SECTION_NAME.
void add_settings(CLI::App& root, Settings& settings);

/// Options of unsigned fields of `app` and its commands refuse a minus, which would otherwise be
/// read as a huge number. For when all are declared.
void refuse_negative_counts(CLI::App& app);

/// "features.join_window_ms" -> SIRENFEED_FEATURES_JOIN_WINDOW_MS
[[nodiscard]] std::string environment_name(const std::string& option);

}  // namespace sirenfeed::app
