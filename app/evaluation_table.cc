#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "app/evaluation_output.h"

namespace sirenfeed::app {
namespace {

using trainer::Metric;

using Line = std::vector<std::string>;

std::string utc(base::UnixMs unix_ms) {
  return fmt::format("{:%Y-%m-%dT%H:%MZ}", fmt::gmtime(static_cast<std::time_t>(unix_ms / 1000)));
}

std::string figure(double value) {
  return std::isfinite(value) ? fmt::format("{:.4f}", value) : std::string("-");
}

std::size_t index_of(Metric metric) { return static_cast<std::size_t>(metric); }

std::string with_spread(const VariantFigures& figures, Metric metric) {
  const double spread = figures.spread[index_of(metric)];
  const std::string mean = figure(figures.mean[index_of(metric)]);
  return std::isfinite(spread) ? fmt::format("{} ±{:.4f}", mean, spread) : mean;
}

std::string difference(const VariantFigures& figures, Metric metric) {
  if (!figures.comparison) return "";
  const Comparison& comparison = *figures.comparison;
  const std::size_t m = index_of(metric);
  if (!std::isfinite(comparison.difference[m])) return "-";
  std::string text = fmt::format("{:+.4f}", comparison.difference[m]);
  if (std::isfinite(comparison.low[m])) {
    text += fmt::format(" [{:+.4f}, {:+.4f}]", comparison.low[m], comparison.high[m]);
  }
  return text;
}

constexpr Metric kCompared[] = {Metric::kNormalizedEntropy, Metric::kAuc};
constexpr Metric kPlain[] = {Metric::kUserAuc,
                             Metric::kUserDayAuc,
                             Metric::kFrozenAuc,
                             Metric::kImpressionAuc,
                             Metric::kLogLoss,
                             Metric::kCalibrationError,
                             Metric::kNdcg10,
                             Metric::kMeanAveragePrecision,
                             Metric::kMeanReciprocalRank};

Line heading(bool compared) {
  Line line = {"slice", "variant", "rows", "rate"};
  for (const Metric metric : kCompared) {
    const std::string title(trainer::metric_title(metric));
    line.push_back(title);
    if (compared) line.push_back(title + " − baseline");
  }
  for (const Metric metric : kPlain) line.emplace_back(trainer::metric_title(metric));
  return line;
}

Line line_of(const ReportPart& part, const VariantFigures& figures, bool compared) {
  Line line = {part.slice, figures.variant, std::to_string(part.rows), figure(part.rate)};
  for (const Metric metric : kCompared) {
    line.push_back(with_spread(figures, metric));
    if (compared) line.push_back(difference(figures, metric));
  }
  for (const Metric metric : kPlain) line.push_back(figure(figures.mean[index_of(metric)]));
  return line;
}

/// Characters, not bytes: "±" and "−" are one each.
std::size_t width_of(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;
  }));
}

std::string render(const std::vector<Line>& lines, TableStyle style) {
  std::string text;
  if (style == TableStyle::kMarkdown) {
    for (std::size_t i = 0; i < lines.size(); ++i) {
      text += fmt::format("| {} |\n", fmt::join(lines[i], " | "));
      if (i > 0) continue;
      for (std::size_t c = 0; c < lines[i].size(); ++c) text += "| --- ";
      text += "|\n";
    }
    return text;
  }
  std::vector<std::size_t> widths(lines.front().size());
  for (const Line& line : lines) {
    for (std::size_t c = 0; c < line.size(); ++c) {
      widths[c] = std::max(widths[c], width_of(line[c]));
    }
  }
  for (const Line& line : lines) {
    for (std::size_t c = 0; c < line.size(); ++c) {
      const std::string padding(widths[c] - width_of(line[c]), ' ');
      text += c < 2 ? line[c] + padding : padding + line[c];
      text += c + 1 < line.size() ? "  " : "\n";
    }
  }
  return text;
}

std::string notes(const EvaluationReport& report) {
  std::string text =
      "\n* on live predictions, biased: a user's counters anticorrelate with the labels within the "
      "user, within a day less so.\nGAUC day is fair: by (user, UTC day), predicted for the user "
      "as "
      "at the day's first impression (--frozen-users).\nAUC imp., within impressions of several "
      "items, is fair, too.\n";
  if (report.seeds.size() > 1) {
    text += fmt::format("± standard deviation over {} seeds.\n", report.seeds.size());
  }
  if (!report.baseline.empty()) {
    text += fmt::format("baseline: {}.", report.baseline);
    if (report.resamples > 0) {
      text += fmt::format(" [95 % interval over {} resamples of the users]", report.resamples);
    }
    text += '\n';
  }
  for (const auto& [name, description] : report.slices) {
    if (name != "all") text += fmt::format("{}: {}.\n", name, description);
  }
  return text;
}

std::string over(double value, double baseline) {
  return baseline > 0 ? fmt::format("{:+.1f} %", 100 * (value / baseline - 1)) : std::string("-");
}

std::string cost_table(const EvaluationReport& report, TableStyle style) {
  if (report.costs.empty()) return "";
  const VariantCost* baseline = nullptr;
  for (const VariantCost& cost : report.costs) {
    if (cost.variant == report.baseline) baseline = &cost;
  }
  const std::string many = fmt::format("FLOPs, {} candidates", kCostCandidates);
  std::vector<Line> lines = {{"variant", "", "dense parameters", "dense bytes", "table bytes",
                              "FLOPs, 1 candidate", many}};
  for (const VariantCost& cost : report.costs) {
    const auto cell = [&](const std::string& text, double value, double of_baseline) {
      const bool other = baseline != nullptr && baseline != &cost;
      return other ? fmt::format("{} ({})", text, over(value, of_baseline)) : text;
    };
    const auto count = [&](std::size_t VariantCost::*field) {
      return cell(std::to_string(cost.*field), static_cast<double>(cost.*field),
                  baseline == nullptr ? 0 : static_cast<double>(baseline->*field));
    };
    const auto flops = [&](double VariantCost::*field) {
      return cell(fmt::format("{:.3f} M", cost.*field / 1e6), cost.*field,
                  baseline == nullptr ? 0 : baseline->*field);
    };
    lines.push_back({cost.variant, "", count(&VariantCost::dense_parameters),
                     count(&VariantCost::dense_bytes), count(&VariantCost::table_bytes),
                     flops(&VariantCost::flops_one), flops(&VariantCost::flops_many)});
  }
  return fmt::format(
      "\n{}cost, over {} where a share is given; {} history tokens, each with a time "
      "and tags of its own\n{}{}",
      style == TableStyle::kMarkdown ? "#### " : "",
      report.baseline.empty() ? "no baseline" : report.baseline, report.cost_history,
      style == TableStyle::kMarkdown ? "\n" : "", render(lines, style));
}

}  // namespace

std::string report_table(const EvaluationReport& report, TableStyle style) {
  const bool compared = !report.baseline.empty();
  std::string text;
  for (std::size_t w = 0; w < report.windows.size(); ++w) {
    for (const std::string& task : report.tasks) {
      std::vector<Line> lines = {heading(compared)};
      for (const ReportPart& part : report.parts) {
        if (part.window != w || part.task != task) continue;
        for (const VariantFigures& figures : part.variants) {
          lines.push_back(line_of(part, figures, compared));
        }
      }
      text += fmt::format("\n{}{} to {}, {}\n{}", style == TableStyle::kMarkdown ? "#### " : "",
                          utc(report.windows[w].from_ms), utc(report.windows[w].to_ms), task,
                          style == TableStyle::kMarkdown ? "\n" : "");
      text += render(lines, style);
    }
  }
  return text + cost_table(report, style) + notes(report);
}

}  // namespace sirenfeed::app
