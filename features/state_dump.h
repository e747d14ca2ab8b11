#pragma once
#include <iosfwd>
#include <vector>

#include "base/result.h"
#include "features/action_types.h"
#include "features/feature_state.h"
#include "features/store.h"

namespace sirenfeed::features {

/// See FeatureState::dump_canonical.
base::Result<void> dump_canonical(const Store& store, const FeaturesConfig& config,
                                  const ActionTypes& types, std::ostream& out);
[[nodiscard]] base::Result<std::vector<FamilySize>> family_sizes(const Store& store);
[[nodiscard]] base::Result<Conservation> read_conservation(const Store& store);

}  // namespace sirenfeed::features
