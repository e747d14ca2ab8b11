#pragma once
#include <algorithm>

#include "model/model.h"

namespace sirenfeed::model {

/// ĉ = clamp((c − mean)/max(std, 1e-3), ±4) of the first `count` features of one row; 0 until the
/// statistics have seen kContextExamplesMin examples. Shared by the head and the towers.
template <class T>
void standardise(const Statistics& statistics, const float* c, std::size_t count, T* out) {
  const bool warm = statistics.context_examples >= kContextExamplesMin;
  const T limit = static_cast<T>(kContextClamp);
  for (std::size_t i = 0; i < count; ++i) {
    const T std_dev = static_cast<T>(std::max(statistics.context_std[i], kContextStdMin));
    const T scaled = (static_cast<T>(c[i]) - static_cast<T>(statistics.context_mean[i])) / std_dev;
    out[i] = warm ? std::min(std::max(scaled, -limit), limit) : T{};
  }
}

}  // namespace sirenfeed::model
