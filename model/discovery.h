#pragma once
// Signal discovery (variant siren_discovery): every signal that may turn a token enters its angle
// network times a gate g in [0, 1], and a penalty in the training loss closes the gates that do not
// pay. A gate is the stretched sigmoid of the hard-concrete distribution (Louizos, Welling, Kingma,
// "Learning Sparse Neural Networks through L0 Regularization", 2018, equations 10 to 12) at its
// median, without noise, so that the same log gives the same bytes:
//   g = clamp(1.2 σ(4a) − 0.1, 0, 1),  penalty = weight · Σ σ(4a),  a = rotary.gate, start 0.
// Once closed (g = 0) a gate gets no gradient from the data and stays closed.
#include <array>
#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "model/model.h"

namespace sirenfeed::model {

/// In the order of rotary.gate.
enum class Signal : std::size_t { kHour, kWeekday, kAge, kTopic, kSegment, kAuthor, kSurface };

/// "hour", "weekday", "age", "topic", "segment", "author", "surface".
[[nodiscard]] const char* signal_name(Signal signal) noexcept;

/// g of rotary.gate's element a, and dg/da.
[[nodiscard]] double gate_of(double a);
[[nodiscard]] double gate_slope(double a);

struct DiscoveredSignal {
  std::string_view name;
  double gate = 0;    // g
  bool kept = false;  // g > 0
};
/// What the model keeps, in the order of Signal; empty for a variant without gates.
[[nodiscard]] std::vector<DiscoveredSignal> discovered_signals(const Model& model);

/// weight · Σ σ(4a), whose gradient is added to d_dense; 0 for a variant without gates.
template <class T>
double add_gate_penalty(const BasicModel<T>& model, double weight, std::span<T> d_dense);

extern template double add_gate_penalty(const BasicModel<float>&, double, std::span<float>);
extern template double add_gate_penalty(const BasicModel<double>&, double, std::span<double>);

}  // namespace sirenfeed::model
