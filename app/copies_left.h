#pragma once
#include <string>
#include <vector>

#include "app/settings.h"

namespace sirenfeed::app {

/// Where copies of what an erasure or takedown has removed remain, and until when: a line each, for
/// its receipt.
[[nodiscard]] std::vector<std::string> copies_left(const Settings& settings);

}  // namespace sirenfeed::app
