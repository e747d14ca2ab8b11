#include "app/cli.h"

#include <CLI/CLI.hpp>

#include "base/build_info.h"

namespace sirenfeed::app {

int run(int argc, char** argv) {
  CLI::App cli("Sirenfeed: a stream of impressions and clicks in, ranked feeds out", "sirenfeed");
  cli.set_version_flag("--version", std::string(base::kVersion) + " (" + base::kCommit + ")");
  try {
    cli.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return cli.exit(error) == 0 ? kExitDone : kExitWrongUse;
  }
  return kExitDone;
}

}  // namespace sirenfeed::app
