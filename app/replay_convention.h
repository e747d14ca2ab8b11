#pragma once
#include <CLI/CLI.hpp>
#include <string>

#include "app/settings.h"
#include "base/result.h"

namespace sirenfeed::app {

/// What a recorded input needs where the user did not say otherwise: no allowed lateness, the event
/// clock, and for kuairand its surfaces and the unit of its durations. Before Settings::resolve().
[[nodiscard]] base::Result<void> apply_replay_convention(const CLI::App& root,
                                                         const std::string& format,
                                                         Settings& settings);

}  // namespace sirenfeed::app
