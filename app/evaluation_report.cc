#include "app/evaluation_report.h"

#include <tbb/parallel_for.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "app/sample_statistics.h"
#include "ingest/event_time.h"
#include "model/cost.h"

namespace sirenfeed::app {
namespace {

using base::ErrorCode;
using base::fail;
using trainer::kMetrics;
using trainer::MetricCells;
using trainer::MetricReplicates;
using trainer::MetricValues;

constexpr std::size_t kTimelineBucketsMax = 60;

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

/// A window's rows, sorted by user and then as they came, with the keys of their groups.
struct WindowRows {
  std::vector<std::size_t> row;
  std::vector<std::uint32_t> user;
  std::vector<std::uint64_t> user_day;
  std::vector<std::uint64_t> impression;
  std::size_t users = 0;
};

WindowRows rows_of(const std::vector<trainer::ExposureRow>& rows, const EvaluationWindow& window) {
  std::unordered_map<std::string_view, std::uint32_t> numbers;
  std::vector<std::pair<std::uint32_t, std::size_t>> order;  // user, row
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].time_ms < window.from_ms || rows[i].time_ms >= window.to_ms) continue;
    const auto next = static_cast<std::uint32_t>(numbers.size());
    order.emplace_back(numbers.emplace(rows[i].user_id, next).first->second, i);
  }
  std::sort(order.begin(), order.end());
  WindowRows result;
  result.users = numbers.size();
  const trainer::ExposureRow* last = nullptr;
  std::uint64_t user_day = 0, impression = 0;
  for (const auto& [user, index] : order) {
    const trainer::ExposureRow& row = rows[index];
    if (last != nullptr) {
      const bool same_user = user == result.user.back();
      const auto day = [](base::UnixMs time) {
        return time / base::kMsPerDay - (time % base::kMsPerDay < 0 ? 1 : 0);
      };
      if (!same_user || day(row.time_ms) != day(last->time_ms)) ++user_day;
      if (!same_user || row.identity.impression_offset != last->identity.impression_offset ||
          row.identity.impression_partition != last->identity.impression_partition) {
        ++impression;
      }
    }
    last = &row;
    result.row.push_back(index);
    result.user.push_back(user);
    result.user_day.push_back(user_day);
    result.impression.push_back(impression);
  }
  return result;
}

/// The cells of a task and slice without probabilities, and which row each is of.
struct PartCells {
  MetricCells cells;
  std::vector<std::size_t> row;
};

PartCells cells_of(const Evaluation& evaluation, const WindowRows& window, std::size_t task,
                   const Slice& slice) {
  PartCells part;
  for (std::size_t i = 0; i < window.row.size(); ++i) {
    const trainer::ExposureRow& row = evaluation.rows[window.row[i]];
    if (!row.known(task) || slice.inside[window.row[i]] == 0) continue;
    part.row.push_back(window.row[i]);
    part.cells.user.push_back(window.user[i]);
    part.cells.user_day.push_back(window.user_day[i]);
    part.cells.impression.push_back(window.impression[i]);
    part.cells.label.push_back(row.label(task) ? 1 : 0);
  }
  return part;
}

MetricCells with_probabilities(const PartCells& part, const EvaluatedModel& model, std::size_t task,
                               std::size_t tasks) {
  MetricCells cells = part.cells;
  cells.probability.resize(part.row.size());
  for (std::size_t i = 0; i < part.row.size(); ++i) {
    cells.probability[i] = model.probability(part.row[i], task, tasks);
  }
  if (model.result.frozen_logits.empty()) return cells;
  cells.frozen_probability.resize(part.row.size());
  for (std::size_t i = 0; i < part.row.size(); ++i) {
    cells.frozen_probability[i] = model.frozen_probability(part.row[i], task, tasks);
  }
  return cells;
}

MetricValues combine(const std::vector<MetricValues>& runs,
                     double (*of)(const std::vector<double>&)) {
  MetricValues result{};
  std::vector<double> values(runs.size());
  for (std::size_t m = 0; m < kMetrics; ++m) {
    for (std::size_t i = 0; i < runs.size(); ++i) values[i] = runs[i][m];
    result[m] = of(values);
  }
  return result;
}

/// Measures one part for every model.
class PartMeasurer {
 public:
  PartMeasurer(const Evaluation& evaluation, const EvaluationReport& report)
      : evaluation_(evaluation), report_(report), tasks_(report.tasks.size()) {}

  /// Puts `part.variants`; `resamples` is null where no intervals are wanted.
  void measure(const PartCells& cells, std::size_t task, const trainer::UserResamples* resamples,
               ReportPart& part) const {
    std::vector<MetricValues> values(evaluation_.models.size());
    tbb::parallel_for(std::size_t{0}, values.size(), [&](std::size_t i) {
      values[i] = trainer::measure(with_probabilities(cells, evaluation_.models[i], task, tasks_));
    });
    const std::size_t seeds = report_.seeds.size();
    for (std::size_t v = 0; v < report_.variants.size(); ++v) {
      VariantFigures figures;
      figures.variant = report_.variants[v];
      const auto first = values.begin() + static_cast<std::ptrdiff_t>(v * seeds);
      figures.runs.assign(first, first + static_cast<std::ptrdiff_t>(seeds));
      figures.mean = combine(figures.runs, mean_of);
      figures.spread = combine(figures.runs, deviation_of);
      part.variants.push_back(std::move(figures));
    }
    if (!report_.baseline.empty()) compare(cells, task, resamples, part);
  }

 private:
  void compare(const PartCells& cells, std::size_t task, const trainer::UserResamples* resamples,
               ReportPart& part) const {
    const auto at = static_cast<std::size_t>(
        std::find(report_.variants.begin(), report_.variants.end(), report_.baseline) -
        report_.variants.begin());
    const VariantFigures baseline = part.variants[at];
    MetricReplicates of_baseline;
    if (resamples != nullptr) of_baseline = replicates(cells, task, at, *resamples);
    for (std::size_t v = 0; v < part.variants.size(); ++v) {
      if (v == at) continue;
      VariantFigures& figures = part.variants[v];
      std::vector<MetricValues> pairs = figures.runs;
      for (std::size_t i = 0; i < pairs.size(); ++i) {
        for (std::size_t m = 0; m < kMetrics; ++m) pairs[i][m] -= baseline.runs[i][m];
      }
      Comparison comparison;
      comparison.difference = combine(pairs, mean_of);
      comparison.spread = combine(pairs, deviation_of);
      comparison.low.fill(std::numeric_limits<double>::quiet_NaN());
      comparison.high = comparison.low;
      if (resamples != nullptr) {
        MetricReplicates differences = replicates(cells, task, v, *resamples);
        for (std::size_t m = 0; m < kMetrics; ++m) {
          for (std::size_t r = 0; r < differences[m].size(); ++r) {
            differences[m][r] -= of_baseline[m][r];
          }
          comparison.low[m] = percentile_of(differences[m], 0.025);
          comparison.high[m] = percentile_of(differences[m], 0.975);
        }
      }
      figures.comparison = comparison;
    }
  }

  /// Mean over the variant's seeds.
  [[nodiscard]] MetricReplicates replicates(const PartCells& cells, std::size_t task,
                                            std::size_t variant,
                                            const trainer::UserResamples& resamples) const {
    const std::size_t seeds = report_.seeds.size();
    MetricReplicates sum;
    for (std::size_t s = 0; s < seeds; ++s) {
      const EvaluatedModel& model = evaluation_.models[variant * seeds + s];
      MetricReplicates one =
          trainer::measure_resamples(with_probabilities(cells, model, task, tasks_), resamples);
      for (std::size_t m = 0; m < kMetrics; ++m) {
        sum[m].resize(one[m].size());
        for (std::size_t r = 0; r < one[m].size(); ++r) {
          sum[m][r] += one[m][r] / static_cast<double>(seeds);
        }
      }
    }
    return sum;
  }

  const Evaluation& evaluation_;
  const EvaluationReport& report_;
  const std::size_t tasks_;
};

base::UnixMs bucket_width(base::UnixMs span_ms) {
  for (const base::UnixMs hours : {1, 3, 6, 12, 24, 48, 168}) {
    const base::UnixMs width = hours * base::kMsPerHour;
    if (span_ms / width < static_cast<base::UnixMs>(kTimelineBucketsMax)) return width;
  }
  return (span_ms / static_cast<base::UnixMs>(kTimelineBucketsMax) / base::kMsPerDay + 1) *
         base::kMsPerDay;
}

Timeline timeline_of(const Evaluation& evaluation, const EvaluationReport& report,
                     std::size_t task) {
  Timeline timeline;
  timeline.task = report.tasks[task];
  timeline.entropies.resize(report.variants.size());
  if (evaluation.rows.empty()) return timeline;
  const base::UnixMs begin = evaluation.rows.front().time_ms;
  timeline.bucket_ms = bucket_width(evaluation.rows.back().time_ms - begin);
  const std::size_t seeds = report.seeds.size();
  std::size_t first = 0;
  while (first < evaluation.rows.size()) {
    const base::UnixMs number = (evaluation.rows[first].time_ms - begin) / timeline.bucket_ms;
    const base::UnixMs end_ms = begin + (number + 1) * timeline.bucket_ms;
    std::size_t last = first;
    std::vector<std::uint8_t> labels;
    std::vector<std::size_t> rows;
    for (; last < evaluation.rows.size() && evaluation.rows[last].time_ms < end_ms; ++last) {
      if (!evaluation.rows[last].known(task)) continue;
      rows.push_back(last);
      labels.push_back(evaluation.rows[last].label(task) ? 1 : 0);
    }
    timeline.from_ms.push_back(end_ms - timeline.bucket_ms);
    timeline.rows.push_back(rows.size());
    for (std::size_t v = 0; v < report.variants.size(); ++v) {
      double sum = 0;
      for (std::size_t s = 0; s < seeds; ++s) {
        std::vector<double> p;
        for (const std::size_t row : rows) {
          p.push_back(evaluation.models[v * seeds + s].probability(row, task, report.tasks.size()));
        }
        sum += trainer::normalized_entropy({p, labels});
      }
      timeline.entropies[v].push_back(sum / static_cast<double>(seeds));
    }
    first = last;
  }
  return timeline;
}

CalibrationCurve calibration_of(const Evaluation& evaluation, const EvaluationReport& report,
                                std::size_t task, std::size_t variant) {
  CalibrationCurve curve;
  curve.task = report.tasks[task];
  curve.variant = report.variants[variant];
  const EvaluationWindow& window = report.windows.back();
  const std::size_t seeds = report.seeds.size();
  for (std::size_t s = 0; s < seeds; ++s) {
    const EvaluatedModel& model = evaluation.models[variant * seeds + s];
    for (std::size_t i = 0; i < evaluation.rows.size(); ++i) {
      const trainer::ExposureRow& row = evaluation.rows[i];
      if (row.time_ms < window.from_ms || row.time_ms >= window.to_ms || !row.known(task)) {
        continue;
      }
      const double p = model.probability(i, task, report.tasks.size());
      const std::size_t bin = trainer::calibration_bin(p);
      curve.predicted[bin] += p;
      curve.observed[bin] += row.label(task) ? 1 : 0;
      ++curve.cells[bin];
    }
  }
  for (std::size_t bin = 0; bin < trainer::kCalibrationBins; ++bin) {
    const auto cells = static_cast<double>(curve.cells[bin]);
    curve.predicted[bin] /= cells;  // NaN without cells
    curve.observed[bin] /= cells;
  }
  return curve;
}

VariantCost cost_of(const EvaluatedModel& evaluated) {
  const model::ModelConfig& config = evaluated.model.config;
  const auto history = static_cast<std::size_t>(config.history_max);
  const auto one = model::model_cost(config, model::SlateShape::all_distinct(history, 1));
  const auto many =
      model::model_cost(config, model::SlateShape::all_distinct(history, kCostCandidates));
  return {.variant = evaluated.variant,
          .dense_parameters = one.dense_parameters,
          .dense_bytes = one.dense_bytes(),
          .table_bytes = one.rows_bytes(model::row_counts(evaluated.model)),
          .flops_one = one.flops,
          .flops_many = many.flops};
}

EvaluationReport start_report(const Evaluation& evaluation, const ReportOptions& options) {
  EvaluationReport report;
  report.windows = options.windows;
  report.tasks = options.tasks;
  for (const EvaluatedModel& model : evaluation.models) {
    if (report.variants.empty() || report.variants.back() != model.variant) {
      report.variants.push_back(model.variant);
    }
    if (report.variants.size() == 1) report.seeds.push_back(model.seed);
  }
  const bool there = std::find(report.variants.begin(), report.variants.end(), options.baseline) !=
                     report.variants.end();
  if (there && report.variants.size() > 1) {
    report.baseline = options.baseline;
    report.resamples = options.resamples;
  }
  return report;
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
  const auto& rows = evaluation.rows;
  if (rows.empty()) return {};
  const base::UnixMs end = (rows.back().time_ms / base::kMsPerHour + 1) * base::kMsPerHour;
  return {{rows.front().time_ms, end}, {end - 4 * base::kMsPerDay, end}};
}

EvaluationReport make_report(const Evaluation& evaluation, const ReportOptions& options,
                             const std::function<void(double)>& on_progress) {
  EvaluationReport report = start_report(evaluation, options);
  const std::vector<Slice> slices = make_slices(evaluation.rows, options.slices);
  for (const Slice& slice : slices) report.slices.emplace_back(slice.name, slice.description);
  const PartMeasurer measurer(evaluation, report);
  const std::size_t parts = report.windows.size() * report.tasks.size() * slices.size();
  for (std::size_t w = 0; w < report.windows.size(); ++w) {
    const WindowRows rows = rows_of(evaluation.rows, report.windows[w]);
    std::optional<trainer::UserResamples> resamples;
    if (report.resamples > 0) {
      resamples.emplace(rows.users, report.resamples, options.resample_seed);
    }
    for (std::size_t task = 0; task < report.tasks.size(); ++task) {
      for (const Slice& slice : slices) {
        const PartCells cells = cells_of(evaluation, rows, task, slice);
        ReportPart part{.window = w, .task = report.tasks[task], .slice = slice.name};
        part.rows = cells.row.size();
        for (std::size_t i = 0; i < cells.row.size(); ++i) {
          part.rate += cells.cells.label[i];
          if (i == 0 || cells.cells.user[i] != cells.cells.user[i - 1]) ++part.users;
        }
        part.rate /= static_cast<double>(part.rows);
        measurer.measure(cells, task, resamples ? &*resamples : nullptr, part);
        report.parts.push_back(std::move(part));
        if (on_progress) {
          on_progress(static_cast<double>(report.parts.size()) / static_cast<double>(parts));
        }
      }
    }
  }
  for (std::size_t v = 0; v < report.variants.size(); ++v) {
    const EvaluatedModel& first = evaluation.models[v * report.seeds.size()];
    report.cost_history = static_cast<std::size_t>(first.model.config.history_max);
    if (!first.model.config.tasks.empty()) report.costs.push_back(cost_of(first));
  }
  if (report.windows.empty()) return report;
  for (std::size_t task = 0; task < report.tasks.size(); ++task) {
    report.timelines.push_back(timeline_of(evaluation, report, task));
    for (std::size_t v = 0; v < report.variants.size(); ++v) {
      report.calibration.push_back(calibration_of(evaluation, report, task, v));
    }
  }
  return report;
}

}  // namespace sirenfeed::app
