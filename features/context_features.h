#pragma once
// The names of the context features c and their order (docs/FEATURES.md has the definitions). The
// computation itself is context_computer.h: examples and serving share it.
#include <string>
#include <vector>

#include "features/features_config.h"

namespace sirenfeed::features {

/// The base set: 73 names, one a configured surface, and surface.is_other. 79 with five surfaces.
[[nodiscard]] std::vector<std::string> base_context_names(const ContextConfig& config);

/// The extended set: 64 names, the most useful first.
[[nodiscard]] std::vector<std::string> extended_context_names();

/// A row of context: the base set, then, with config.extended, the extended one.
[[nodiscard]] std::vector<std::string> context_feature_names(const ContextConfig& config);

/// Names of the tasks and of the actions, as the model's config lists them.
[[nodiscard]] std::vector<std::string> task_names(const ExampleConfig& config);

}  // namespace sirenfeed::features
