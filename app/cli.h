#pragma once
// The command line: one subcommand a file (app/command_*.cc), each told only what it needs.
namespace sirenfeed::app {

/// Exit codes of every subcommand.
inline constexpr int kExitDone = 0;
inline constexpr int kExitFailed = 1;
inline constexpr int kExitWrongUse = 2;

/// Parses the arguments and runs the subcommand; returns its exit code.
[[nodiscard]] int run(int argc, char** argv);

}  // namespace sirenfeed::app
