#include <boost/json.hpp>
#include <cmath>

#include "app/evaluation_output.h"
#include "base/build_info.h"
#include "model/discovery.h"

namespace sirenfeed::app {
namespace {

namespace json = boost::json;
using trainer::kMetrics;
using trainer::Metric;
using trainer::MetricValues;

constexpr int kReportVersion = 2;

json::value number(double value) {
  return std::isfinite(value) ? json::value(value) : json::value(nullptr);
}

template <class Values>
json::array numbers(const Values& values) {
  json::array all;
  for (const double value : values) all.push_back(number(value));
  return all;
}

json::object metrics(const MetricValues& values) {
  json::object object;
  for (std::size_t m = 0; m < kMetrics; ++m) {
    object[trainer::metric_key(static_cast<Metric>(m))] = number(values[m]);
  }
  return object;
}

/// {"hour": {"gate", "kept"}, …}; empty for a variant without gates.
json::object signals_of(const model::Model& model) {
  json::object signals;
  for (const model::DiscoveredSignal& signal : model::discovered_signals(model)) {
    signals[signal.name] = json::object{{"gate", signal.gate}, {"kept", signal.kept}};
  }
  return signals;
}

json::array models_of(const Evaluation& evaluation) {
  json::array models;
  for (const EvaluatedModel& model : evaluation.models) {
    models.push_back({{"variant", model.variant},
                      {"seed", model.seed},
                      {"exposures", evaluation.rows.size()},
                      {"examples", model.result.examples},
                      {"batches", model.result.batches},
                      {"batches_skipped", model.result.batches_skipped},
                      {"exposures_never_closed", evaluation.unmatched},
                      {"signals", signals_of(model.model)},
                      {"model_busy_seconds", model.result.busy_seconds}});
  }
  return models;
}

/// One object a window, task, variant and seed, over all rows.
json::array windows_of(const EvaluationReport& report) {
  json::array windows;
  for (const ReportPart& part : report.parts) {
    if (part.slice != "all") continue;
    for (const VariantFigures& figures : part.variants) {
      for (std::size_t s = 0; s < figures.runs.size(); ++s) {
        json::object one{{"variant", figures.variant},
                         {"seed", report.seeds[s]},
                         {"from_ms", report.windows[part.window].from_ms},
                         {"to_ms", report.windows[part.window].to_ms},
                         {"task", part.task},
                         {"rows", part.rows},
                         {"rate", number(part.rate)}};
        for (const auto& [key, value] : metrics(figures.runs[s])) one[key] = value;
        windows.push_back(std::move(one));
      }
    }
  }
  return windows;
}

json::object variant_of(const EvaluationReport& report, const VariantFigures& figures) {
  json::array seeds;
  for (std::size_t s = 0; s < figures.runs.size(); ++s) {
    json::object one = metrics(figures.runs[s]);
    one["seed"] = report.seeds[s];
    seeds.push_back(std::move(one));
  }
  json::object object{{"variant", figures.variant},
                      {"mean", metrics(figures.mean)},
                      {"spread", metrics(figures.spread)},
                      {"seeds", std::move(seeds)},
                      {"comparison", nullptr}};
  if (figures.comparison) {
    object["comparison"] = {{"baseline", report.baseline},
                            {"difference", metrics(figures.comparison->difference)},
                            {"spread", metrics(figures.comparison->spread)},
                            {"low", metrics(figures.comparison->low)},
                            {"high", metrics(figures.comparison->high)}};
  }
  return object;
}

json::array parts_of(const EvaluationReport& report) {
  json::array parts;
  for (const ReportPart& part : report.parts) {
    json::array variants;
    for (const VariantFigures& figures : part.variants) {
      variants.push_back(variant_of(report, figures));
    }
    parts.push_back({{"from_ms", report.windows[part.window].from_ms},
                     {"to_ms", report.windows[part.window].to_ms},
                     {"task", part.task},
                     {"slice", part.slice},
                     {"rows", part.rows},
                     {"users", part.users},
                     {"rate", number(part.rate)},
                     {"variants", std::move(variants)}});
  }
  return parts;
}

json::array timelines_of(const EvaluationReport& report) {
  json::array timelines;
  for (const Timeline& timeline : report.timelines) {
    json::array series;
    for (std::size_t v = 0; v < report.variants.size(); ++v) {
      series.push_back({{"variant", report.variants[v]}, {"ne", numbers(timeline.entropies[v])}});
    }
    timelines.push_back({{"task", timeline.task},
                         {"bucket_ms", timeline.bucket_ms},
                         {"from_ms", json::value_from(timeline.from_ms)},
                         {"rows", json::value_from(timeline.rows)},
                         {"series", std::move(series)}});
  }
  return timelines;
}

json::array calibration_of(const EvaluationReport& report) {
  json::array curves;
  for (const CalibrationCurve& curve : report.calibration) {
    curves.push_back({{"task", curve.task},
                      {"variant", curve.variant},
                      {"predicted", numbers(curve.predicted)},
                      {"observed", numbers(curve.observed)},
                      {"cells", json::value_from(curve.cells)}});
  }
  return curves;
}

json::object cost_numbers(const VariantCost& cost) {
  return {{"dense_parameters", cost.dense_parameters},
          {"dense_bytes", cost.dense_bytes},
          {"table_bytes", cost.table_bytes},
          {"flops_one", cost.flops_one},
          {"flops_many", cost.flops_many}};
}

json::array costs_of(const EvaluationReport& report) {
  json::object of_baseline;
  for (const VariantCost& cost : report.costs) {
    if (cost.variant == report.baseline) of_baseline = cost_numbers(cost);
  }
  json::array costs;
  for (const VariantCost& cost : report.costs) {
    json::object one = cost_numbers(cost);
    json::object over;
    for (const auto& [key, value] : of_baseline) {
      const double baseline = value.to_number<double>();
      over[key] = baseline > 0 ? number(one.at(key).to_number<double>() / baseline - 1) : nullptr;
    }
    one["variant"] = cost.variant;
    one["over_baseline"] = of_baseline.empty() ? json::value(nullptr) : json::value(over);
    costs.push_back(std::move(one));
  }
  return costs;
}

}  // namespace

std::string report_json(const ReportOrigin& origin, const Evaluation& evaluation,
                        const EvaluationReport& report) {
  json::array slices;
  for (const auto& [name, description] : report.slices) {
    slices.push_back({{"name", name}, {"description", description}});
  }
  return json::serialize(json::object{
      {"report_version", kReportVersion},
      {"commit", base::kCommit},
      {"file", origin.file},
      {"format", origin.format},
      {"shuffled_times", origin.shuffled_times},
      {"seconds", evaluation.seconds},
      {"records_rejected", evaluation.records_rejected},
      {"baseline", report.baseline.empty() ? json::value(nullptr) : json::value(report.baseline)},
      {"resamples", report.resamples},
      {"slices", std::move(slices)},
      {"models", models_of(evaluation)},
      {"windows", windows_of(report)},
      {"parts", parts_of(report)},
      {"timelines", timelines_of(report)},
      {"calibration", calibration_of(report)},
      {"cost_slate", {{"history_tokens", report.cost_history}, {"candidates", kCostCandidates}}},
      {"costs", costs_of(report)}});
}

}  // namespace sirenfeed::app
