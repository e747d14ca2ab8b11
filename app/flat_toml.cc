#include "app/flat_toml.h"

#include <cstdlib>

#include "app/settings_options.h"

namespace sirenfeed::app {

std::vector<CLI::ConfigItem> FlatToml::from_config(std::istream& input) const {
  std::vector<CLI::ConfigItem> flat;
  for (CLI::ConfigItem& item : CLI::ConfigTOML::from_config(input)) {
    if (item.name == "++" || item.name == "--") continue;  // opens or closes a section
    CLI::ConfigItem one;
    one.name = item.fullname();
    if (std::getenv(environment_name(one.name).c_str()) != nullptr) continue;
    one.inputs = std::move(item.inputs);
    flat.push_back(std::move(one));
  }
  return flat;
}

}  // namespace sirenfeed::app
