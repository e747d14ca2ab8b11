#pragma once
// The history that a request at one time sees, for examples and for serving.
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "features/action_types.h"
#include "features/feature_reader.h"
#include "features/features_config.h"
#include "features/item_side.h"
#include "features/user_state.h"

namespace sirenfeed::features {

/// Bit of each configured action by its type.
class ActionBits {
 public:
  /// types[a] is the type of configured action a.
  explicit ActionBits(std::span<const ActionType> types);
  /// Actions of the entry known strictly before `t`.
  [[nodiscard]] std::uint32_t known_before(const SequenceEntry& entry, base::UnixMs t) const;

 private:
  std::array<std::uint32_t, ActionTypes::kTypesMax> bit_{};
};

/// The newest `config.history_max` exposures strictly older than `t`, oldest first, with the
/// metadata that the catalog has now. With `config.history_actions_only`, of those exposures that
/// got a configured action strictly before `t`.
[[nodiscard]] History make_history(const UserState& user, const ItemSide& item_side,
                                   const ActionBits& bits, base::UnixMs t,
                                   const ExampleConfig& config);

}  // namespace sirenfeed::features
