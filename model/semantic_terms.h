#pragma once
// ω^sem f_sem(s): the angle terms that read what a token is about.
#include <memory>
#include <string>

#include "model/angle_terms.h"
#include "model/parameters.h"

namespace sirenfeed::model {

/// s = mean of the tags' rows + the segment's row; a missing part is 0.
template <class T>
[[nodiscard]] std::unique_ptr<const AngleTerm<T>> make_semantic_term(const ModelConfig& config,
                                                                     const ParameterLayout& layout,
                                                                     const std::string& prefix);
/// s = Σ g · part over the tags' mean, the segment's, the author's and the surface's row, each with
/// its gate g (model/discovery.h). The segment is the user's and taken as of the request, the
/// surface that of the token.
template <class T>
[[nodiscard]] std::unique_ptr<const AngleTerm<T>> make_gated_semantic_term(
    const ModelConfig& config, const ParameterLayout& layout, const std::string& prefix);

}  // namespace sirenfeed::model
