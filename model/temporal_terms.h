#pragma once
// ω f(T): the angle terms that read a token's time. Tokens without time take unknown_time for f.
#include <memory>
#include <string>

#include "model/angle_terms.h"
#include "model/parameters.h"

namespace sirenfeed::model {

/// f = the sum of the paths that the variant has, on t.
template <class T>
[[nodiscard]] std::unique_ptr<const AngleTerm<T>> make_temporal_term(const ModelConfig& config,
                                                                     const ParameterLayout& layout,
                                                                     const std::string& prefix);
/// f in groups of planes, each with both paths on the features of its time scale (scale_groups).
template <class T>
[[nodiscard]] std::unique_ptr<const AngleTerm<T>> make_hierarchy_term(const ModelConfig& config,
                                                                      const ParameterLayout& layout,
                                                                      const std::string& prefix);
/// Both paths on t times the gates of hour, weekday and age (model/discovery.h).
template <class T>
[[nodiscard]] std::unique_ptr<const AngleTerm<T>> make_gated_temporal_term(
    const ModelConfig& config, const ParameterLayout& layout, const std::string& prefix);

}  // namespace sirenfeed::model
