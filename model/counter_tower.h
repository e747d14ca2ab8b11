#pragma once
// The counter tower: a perceptron of 64 and 64 on ĉ alone, the tensors counter.{0,1,2}. It never
// sees ids, so past examples may be replayed into it; its loss and optimiser are its own
// (trainer/tower_trainer.h).
#include "model/parameters.h"
#include "model/perceptron.h"

namespace sirenfeed::model {

inline constexpr const char* kCounterTowerPrefix = "counter";

/// The tower's tensors alone, with offsets from 0: for its own optimiser. `begin` is where they
/// start in `layout`'s buffer, in which they lie together.
struct TowerLayout {
  ParameterLayout layout;
  std::size_t begin = 0;
};
[[nodiscard]] TowerLayout counter_layout(const ParameterLayout& layout);

}  // namespace sirenfeed::model
