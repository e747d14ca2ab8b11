#pragma once
// The line form of `evaluate --dump-examples` and `sirenfeed score`:
// {"time","segment","history":[{"item","tags","author","time","actions"}],
//  "candidates":[{"item","tags","author","context"}]}
#include <span>
#include <string>

#include "base/result.h"
#include "features/feature_reader.h"

namespace sirenfeed::features {

class Example;

/// One line without its end. Hashes are named through the catalog and the user's profile; one that
/// no longer has a name there is written as "#" and 16 hex digits. `actions` names the history's
/// action bits. Floats are written so that reading them gives back the same float.
[[nodiscard]] base::Result<std::string> example_to_json(const Example& example,
                                                        const FeatureReader& reader,
                                                        std::span<const std::string> actions);

}  // namespace sirenfeed::features
