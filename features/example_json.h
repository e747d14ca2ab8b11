#pragma once
// The line form of `evaluate --dump-examples` and `sirenfeed score`:
// {"time","segment","surface","history":[{"item","tags","author","time","actions","surface"}],
//  "candidates":[{"item","tags","author","context"}]}; surfaces are left out where not known
#include <span>
#include <string>

#include "base/result.h"
#include "features/feature_reader.h"

namespace sirenfeed::features {

class Example;

struct ExampleNames {
  std::span<const std::string> actions;   // of the history's action bits
  std::span<const std::string> surfaces;  // that the history may have been shown on
};

/// One line without its end. Hashes are named through the catalog, the user's profile and `names`;
/// one that has no name there is written as "#" and 16 hex digits. Floats are written so that
/// reading them gives back the same float.
[[nodiscard]] base::Result<std::string> example_to_json(const Example& example,
                                                        const FeatureReader& reader,
                                                        const ExampleNames& names);

}  // namespace sirenfeed::features
