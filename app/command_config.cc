#include <cstdio>

#include "app/command_line.h"

namespace sirenfeed::app {

void add_config_command(CommandLine& line) {
  CLI::App& command =
      add_command(line, "config", "Print every setting with its value and meaning, as TOML",
                  "  sirenfeed config > sirenfeed.toml\n"
                  "  sirenfeed config --config sirenfeed.toml --features.join_window_ms 300000");
  command.callback([&line] {
    line.action = [&line]() -> base::Result<void> {
      const auto secret = [](const std::string& text) {
        return text.find("password") != std::string::npos ||
               text.find("secret") != std::string::npos;
      };
      for (const CLI::Option* option : line.root.get_options()) {
        if (!option->get_configurable() || option->get_lnames().empty()) continue;
        const std::string& name = option->get_lnames().front();
        if (name == "config" || name == "help" || name == "version") continue;
        std::string value;
        for (const std::string& part : option->results()) {
          value += (value.empty() ? "" : ",") + (secret(part) ? "********" : part);
        }
        if (option->empty()) value = option->get_default_str();
        fmt::print("# {} [{}]\n{} = \"{}\"\n", option->get_description(), option->get_envname(),
                   name, value);
      }
      return {};
    };
  });
}

}  // namespace sirenfeed::app
