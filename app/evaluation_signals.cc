#include "app/evaluation_output.h"
#include "model/discovery.h"

namespace sirenfeed::app {

std::string report_signals(const Evaluation& evaluation) {
  std::string text;
  for (const EvaluatedModel& model : evaluation.models) {
    const auto signals = model::discovered_signals(model.model);
    if (signals.empty()) continue;
    text += fmt::format("{}, seed {}, signals:", model.variant, model.seed);
    for (const model::DiscoveredSignal& signal : signals) {
      text +=
          fmt::format("  {} {:.2f}{}", signal.name, signal.gate, signal.kept ? "" : " (closed)");
    }
    text += '\n';
  }
  return text.empty() ? text : '\n' + text;
}

}  // namespace sirenfeed::app
