#pragma once
// A report as text for people, as JSON for scripts (docs/FORMATS.md) and as one HTML file.
#include <string>

#include "app/evaluation_report.h"

namespace sirenfeed::app {

/// How the report came about; a part of every form.
struct ReportOrigin {
  std::string file;
  std::string format;  // events or kuairand
  bool shuffled_times = false;
};

enum class TableStyle { kText, kMarkdown };
/// One table a window and task: each slice and variant with its metrics, and the difference to the
/// baseline with its interval.
[[nodiscard]] std::string report_table(const EvaluationReport& report, TableStyle style);
/// A line for every model with gates: each signal's gate, and which are closed; else nothing.
[[nodiscard]] std::string report_signals(const Evaluation& evaluation);
[[nodiscard]] std::string report_json(const ReportOrigin& origin, const Evaluation& evaluation,
                                      const EvaluationReport& report);
/// Self-contained: style, scripts, Chart.js and the JSON are inside; nothing is fetched.
[[nodiscard]] std::string report_html(const std::string& json);

}  // namespace sirenfeed::app
