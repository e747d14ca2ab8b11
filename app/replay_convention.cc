#include "app/replay_convention.h"

namespace sirenfeed::app {

base::Result<void> apply_replay_convention(const CLI::App& root, const std::string& format,
                                           Settings& settings) {
  const auto given = [&root](const char* option) { return root.get_option(option)->count() > 0; };
  settings.clock = "event";
  if (!given("--features.lateness_max_ms")) settings.features.join.lateness_max_ms = 0;
  if (format != "kuairand") return {};
  if (!given("--features.context_surfaces")) {
    settings.features.context.surfaces = {"0", "1", "2", "4", "6"};
  }
  if (!given("--features.duration_field")) {
    settings.features.context.duration_field = "duration_ms";
    // A unit that was given is that of the field that was meant, whoever named it.
    if (!given("--features.duration_unit_s")) settings.features.context.duration_unit_s = 0.001;
  }
  return {};
}

}  // namespace sirenfeed::app
