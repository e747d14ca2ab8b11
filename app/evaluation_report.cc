#include "app/evaluation_report.h"

#include <fmt/chrono.h>
#include <fmt/os.h>

#include <boost/json.hpp>
#include <charconv>
#include <cmath>
#include <fstream>
#include <unordered_map>

#include "base/build_info.h"
#include "base/hash.h"
#include "ingest/event_time.h"
#include "trainer/metrics.h"

namespace sirenfeed::app {
namespace {

namespace json = boost::json;
using base::ErrorCode;
using base::fail;

std::string utc(base::UnixMs unix_ms) {
  return fmt::format("{:%Y-%m-%dT%H:%MZ}", fmt::gmtime(static_cast<std::time_t>(unix_ms / 1000)));
}

base::Result<base::UnixMs> parse_time(const std::string& text) {
  base::UnixMs unix_ms = 0;
  const char* end = text.data() + text.size();
  if (!text.empty() && std::from_chars(text.data(), end, unix_ms).ptr == end) return unix_ms;
  const auto time = ingest::parse_iso8601(text);
  if (!time) {
    return fail(ErrorCode::kInvalidArgument,
                "--window: expected Unix milliseconds or 2022-04-30T16:00Z, got '{}'", text);
  }
  return *time;
}

/// The cells of one task within a window, in the order of the exposures.
struct Cells {
  std::vector<double> probability;
  std::vector<std::uint8_t> label;
  std::vector<std::uint64_t> user;
  std::vector<std::uint64_t> impression;
};

Cells select(const trainer::PrequentialResult& result, const EvaluationWindow& window,
             std::size_t task) {
  Cells cells;
  for (const trainer::PredictionRow& row : result.rows) {
    if (row.time_ms < window.from_ms || row.time_ms >= window.to_ms) continue;
    const trainer::PredictionCell& cell = row.cells[task];
    if (cell.masked) continue;
    cells.probability.push_back(cell.probability);
    cells.label.push_back(cell.label);
    cells.user.push_back(base::xxh3_64(row.user_id));
    cells.impression.push_back(static_cast<std::uint64_t>(row.identity.impression_offset));
  }
  return cells;
}

bool one_item_an_impression(const Cells& cells) {
  for (std::size_t i = 1; i < cells.impression.size(); ++i) {
    if (cells.impression[i] == cells.impression[i - 1]) return false;
  }
  return true;
}

json::value number(double value) {
  return std::isfinite(value) ? json::value(value) : json::value(nullptr);
}

std::string figure(double value) {
  return std::isfinite(value) ? fmt::format("{:.4f}", value) : std::string("-");
}

std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + '"';
}

}  // namespace

base::Result<EvaluationWindow> parse_window(const std::string& text) {
  const std::size_t dots = text.find("..");
  if (dots == std::string::npos) {
    return fail(ErrorCode::kInvalidArgument, "--window: expected FROM..TO, got '{}'", text);
  }
  EvaluationWindow window;
  SF_ASSIGN(window.from_ms, parse_time(text.substr(0, dots)));
  SF_ASSIGN(window.to_ms, parse_time(text.substr(dots + 2)));
  if (window.from_ms >= window.to_ms) {
    return fail(ErrorCode::kInvalidArgument, "--window: FROM is not before TO in '{}'", text);
  }
  return window;
}

std::vector<EvaluationWindow> default_windows(const Evaluation& evaluation) {
  const auto& rows = evaluation.models.front().result.rows;
  if (rows.empty()) return {};
  const base::UnixMs end = (rows.back().time_ms / base::kMsPerHour + 1) * base::kMsPerHour;
  return {{rows.front().time_ms, end}, {end - 4 * base::kMsPerDay, end}};
}

std::vector<WindowReport> report_windows(const Evaluation& evaluation,
                                         const std::vector<std::string>& tasks,
                                         const std::vector<EvaluationWindow>& windows) {
  std::vector<WindowReport> reports;
  for (const EvaluationWindow& window : windows) {
    for (std::size_t task = 0; task < tasks.size(); ++task) {
      for (const EvaluatedModel& model : evaluation.models) {
        const Cells cells = select(model.result, window, task);
        const trainer::Scored scored{cells.probability, cells.label};
        WindowReport report{.variant = model.variant,
                            .seed = model.seed,
                            .window = window,
                            .task = tasks[task],
                            .rows = cells.label.size()};
        double positives = 0;
        for (const std::uint8_t label : cells.label) positives += label;
        report.rate = positives / static_cast<double>(cells.label.size());
        report.auc = trainer::auc(scored);
        report.normalized_entropy = trainer::normalized_entropy(scored);
        report.log_loss = trainer::log_loss(scored);
        report.calibration_error = trainer::expected_calibration_error(scored);
        report.user_gauc = trainer::grouped_auc(scored, cells.user).value;
        report.impression_auc = report.ndcg10 = report.mean_average_precision =
            report.mean_reciprocal_rank = std::nan("");
        if (!one_item_an_impression(cells)) {
          report.impression_auc = trainer::grouped_auc(scored, cells.impression).value;
          const auto ranking = trainer::ranking_metrics(scored, cells.impression);
          report.ndcg10 = ranking.ndcg10;
          report.mean_average_precision = ranking.mean_average_precision;
          report.mean_reciprocal_rank = ranking.mean_reciprocal_rank;
        }
        reports.push_back(std::move(report));
      }
    }
  }
  return reports;
}

std::string report_table(const std::vector<WindowReport>& reports) {
  std::string table;
  const EvaluationWindow* window = nullptr;
  for (const WindowReport& report : reports) {
    if (window == nullptr || window->from_ms != report.window.from_ms ||
        window->to_ms != report.window.to_ms) {
      window = &report.window;
      table += fmt::format(
          "\n{} to {}\n{:<16} {:>5} {:<10} {:>8} {:>7} {:>7} {:>7} {:>8} {:>7} "
          "{:>7} {:>7} {:>7} {:>7}\n",
          utc(window->from_ms), utc(window->to_ms), "variant", "seed", "task", "rows", "rate",
          "AUC", "NE", "log loss", "ECE", "GAUC*", "NDCG@10", "MAP", "MRR");
    }
    table += fmt::format(
        "{:<16} {:>5} {:<10} {:>8} {:>7} {:>7} {:>7} {:>8} {:>7} {:>7} {:>7} {:>7} "
        "{:>7}\n",
        report.variant, report.seed, report.task, report.rows, figure(report.rate),
        figure(report.auc), figure(report.normalized_entropy), figure(report.log_loss),
        figure(report.calibration_error), figure(report.user_gauc), figure(report.ndcg10),
        figure(report.mean_average_precision), figure(report.mean_reciprocal_rank));
  }
  table +=
      "* by user, live: biased downwards, since a user's counters anticorrelate with the labels "
      "within the user.\n";
  return table;
}

std::string report_json(const EvaluationOptions& options, const Evaluation& evaluation,
                        const std::vector<WindowReport>& reports) {
  json::array models;
  for (const EvaluatedModel& model : evaluation.models) {
    models.push_back({{"variant", model.variant},
                      {"seed", model.seed},
                      {"exposures", model.result.rows.size()},
                      {"examples", model.result.examples},
                      {"batches", model.result.batches},
                      {"batches_skipped", model.result.batches_skipped},
                      {"exposures_never_closed", model.result.unmatched},
                      {"model_busy_seconds", model.result.busy_seconds}});
  }
  json::array windows;
  for (const WindowReport& report : reports) {
    windows.push_back({{"variant", report.variant},
                       {"seed", report.seed},
                       {"from_ms", report.window.from_ms},
                       {"to_ms", report.window.to_ms},
                       {"task", report.task},
                       {"rows", report.rows},
                       {"rate", number(report.rate)},
                       {"auc", number(report.auc)},
                       {"ne", number(report.normalized_entropy)},
                       {"log_loss", number(report.log_loss)},
                       {"ece", number(report.calibration_error)},
                       {"gauc_user_live", number(report.user_gauc)},
                       {"auc_within_impression", number(report.impression_auc)},
                       {"ndcg10", number(report.ndcg10)},
                       {"map", number(report.mean_average_precision)},
                       {"mrr", number(report.mean_reciprocal_rank)}});
  }
  return json::serialize(
      json::object{{"commit", base::kCommit},
                   {"file", options.file},
                   {"format", std::string(ingest::replay_format_name(options.format))},
                   {"seconds", evaluation.seconds},
                   {"records_rejected", evaluation.records_rejected},
                   {"models", std::move(models)},
                   {"windows", std::move(windows)}});
}

base::Result<void> write_predictions(const std::string& path,
                                     const trainer::PrequentialResult& result,
                                     const std::vector<std::string>& tasks) {
  std::ofstream file(path);
  file << "time_ms,user_id,item_id,task,label,probability\n";
  fmt::memory_buffer line;
  for (const trainer::PredictionRow& row : result.rows) {
    for (std::size_t task = 0; task < tasks.size(); ++task) {
      const trainer::PredictionCell& cell = row.cells[task];
      if (cell.masked) continue;
      line.clear();
      fmt::format_to(std::back_inserter(line), "{},{},{},{},{},{:.9g}\n", row.time_ms,
                     csv_field(row.user_id), csv_field(row.item_id), csv_field(tasks[task]),
                     cell.label, cell.probability);
      file.write(line.data(), static_cast<std::streamsize>(line.size()));
    }
  }
  file.close();
  if (!file) return fail(ErrorCode::kStorage, "{}: cannot be written", path);
  return {};
}

}  // namespace sirenfeed::app
