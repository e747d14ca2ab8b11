#include "model/discovery.h"

#include <algorithm>
#include <cmath>

namespace sirenfeed::model {
namespace {

constexpr double kSteepness = 4.0;
constexpr double kStretch = 1.2;
constexpr double kBelow = 0.1;

double sigmoid_of(double a) { return 1.0 / (1.0 + std::exp(-kSteepness * a)); }

}  // namespace

const char* signal_name(Signal signal) noexcept {
  constexpr std::array<const char*, kSignalCount> kNames = {"hour",    "weekday", "age",    "topic",
                                                            "segment", "author",  "surface"};
  return kNames[static_cast<std::size_t>(signal)];
}

double gate_of(double a) { return std::clamp(kStretch * sigmoid_of(a) - kBelow, 0.0, 1.0); }

double gate_slope(double a) {
  const double s = sigmoid_of(a);
  const double stretched = kStretch * s - kBelow;
  return stretched > 0.0 && stretched < 1.0 ? kStretch * kSteepness * s * (1.0 - s) : 0.0;
}

std::vector<DiscoveredSignal> discovered_signals(const Model& model) {
  const TensorSpec* spec = model.layout.find("rotary.gate");
  if (spec == nullptr) return {};
  std::vector<DiscoveredSignal> signals;
  for (std::size_t s = 0; s < kSignalCount; ++s) {
    const double gate = gate_of(static_cast<double>(model.dense[spec->offset + s]));
    signals.push_back({signal_name(static_cast<Signal>(s)), gate, gate > 0.0});
  }
  return signals;
}

template <class T>
double add_gate_penalty(const BasicModel<T>& model, double weight, std::span<T> d_dense) {
  const TensorSpec* spec = model.layout.find("rotary.gate");
  if (spec == nullptr || weight == 0) return 0.0;
  double penalty = 0;
  for (std::size_t s = 0; s < kSignalCount; ++s) {
    const double open = sigmoid_of(static_cast<double>(model.dense[spec->offset + s]));
    penalty += weight * open;
    d_dense[spec->offset + s] += static_cast<T>(weight * kSteepness * open * (1.0 - open));
  }
  return penalty;
}

template double add_gate_penalty(const BasicModel<float>&, double, std::span<float>);
template double add_gate_penalty(const BasicModel<double>&, double, std::span<double>);

}  // namespace sirenfeed::model
