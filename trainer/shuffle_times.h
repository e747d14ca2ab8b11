#pragma once
// The control of an ablation: a model that gains from the history's times must lose that gain when
// the times are permuted.
#include <cstdint>

#include "trainer/decoded_example.h"

namespace sirenfeed::trainer {

/// Permutes the times of the example's history tokens among them, so that no token keeps its own
/// except by chance. Items, actions, positions and the request's time stay. The permutation follows
/// from the seed and the impression: the exposure and its closed example get the same.
void shuffle_history_times(DecodedExample& example, std::uint64_t seed);

}  // namespace sirenfeed::trainer
