#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "app/command_line.h"

namespace sirenfeed::app {
namespace {

std::vector<std::string> values_of(const CLI::Option& option) {
  if (!option.empty()) return option.results();
  const std::string text = option.get_default_str();
  if (text.size() < 2 || text.front() != '[' || text.back() != ']') return {text};
  std::vector<std::string> parts;  // of a list: "[a,b]"
  std::size_t begin = 1;
  while (begin < text.size() - 1) {
    const std::size_t end = std::min(text.find(',', begin), text.size() - 1);
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

std::string quoted(const std::string& text) {
  const bool secret =
      text.find("password") != std::string::npos || text.find("secret") != std::string::npos;
  const char quote = text.find('"') == std::string::npos ? '"' : '\'';
  return quote + (secret ? "********" : text) + quote;
}

/// A default stands in a comment: in a file that is read back it would count as given, and where a
/// command has defaults of its own (`evaluate --format kuairand`) it would win over them.
std::string toml_line(const CLI::Option& option) {
  const std::string& name = option.get_lnames().front();
  std::vector<std::string> values;
  for (const std::string& value : values_of(option)) values.push_back(quoted(value));
  // An empty list cannot be read back; to leave it out says the same.
  const char* comment = option.empty() || values.empty() ? "# " : "";
  if (option.get_items_expected_max() <= 1) {
    return fmt::format("{}{} = {}", comment, name, values.at(0));
  }
  return fmt::format("{}{} = [{}]", comment, name, fmt::join(values, ", "));
}

}  // namespace

void add_config_command(CommandLine& line) {
  CLI::App& command =
      add_command(line, "config",
                  "Print every setting with its value and meaning, as TOML; defaults as comments",
                  "  sirenfeed config > sirenfeed.toml\n"
                  "  sirenfeed config --config sirenfeed.toml --features.join_window_ms 300000");
  command.callback([&line] {
    line.action = [&line]() -> base::Result<void> {
      for (const CLI::Option* option : line.root.get_options()) {
        if (!option->get_configurable() || option->get_lnames().empty()) continue;
        const std::string& name = option->get_lnames().front();
        if (name == "config" || name == "help" || name == "version") continue;
        fmt::print("# {} [{}]\n{}\n", option->get_description(), option->get_envname(),
                   toml_line(*option));
      }
      return {};
    };
  });
}

}  // namespace sirenfeed::app
