#pragma once
// What an evaluation found: a table for people, JSON and CSV for scripts.
#include <string>
#include <vector>

#include "app/evaluation.h"
#include "base/clock.h"
#include "base/result.h"

namespace sirenfeed::app {

/// Exposures with from <= time < to.
struct EvaluationWindow {
  base::UnixMs from_ms = 0;
  base::UnixMs to_ms = 0;
};

/// "FROM..TO", each Unix milliseconds or ISO-8601 with zone (seconds may be left out).
[[nodiscard]] base::Result<EvaluationWindow> parse_window(const std::string& text);

/// The whole pass and its last four days, up to the full hour after the last exposure.
[[nodiscard]] std::vector<EvaluationWindow> default_windows(const Evaluation& evaluation);

/// Metrics of one model, window and task; a figure that the rows do not define is NaN.
struct WindowReport {
  std::string variant;
  std::uint64_t seed = 0;
  EvaluationWindow window;
  std::string task;
  std::size_t rows = 0;
  double rate = 0;
  double auc = 0;
  double normalized_entropy = 0;
  double log_loss = 0;
  double calibration_error = 0;
  double user_gauc = 0;       // biased in a prequential run: see the table's note
  double impression_auc = 0;  // within impressions of several items
  double ndcg10 = 0;
  double mean_average_precision = 0;
  double mean_reciprocal_rank = 0;
};

[[nodiscard]] std::vector<WindowReport> report_windows(
    const Evaluation& evaluation, const std::vector<std::string>& tasks,
    const std::vector<EvaluationWindow>& windows);

[[nodiscard]] std::string report_table(const std::vector<WindowReport>& reports);
[[nodiscard]] std::string report_json(const EvaluationOptions& options,
                                      const Evaluation& evaluation,
                                      const std::vector<WindowReport>& reports);

/// time_ms,user_id,item_id,task,label,probability: one row a scored exposure and task.
[[nodiscard]] base::Result<void> write_predictions(const std::string& path,
                                                   const trainer::PrequentialResult& result,
                                                   const std::vector<std::string>& tasks);

}  // namespace sirenfeed::app
