#pragma once
// What an evaluation found: every metric for each window, task and slice, over the seeds of each
// variant, and against a baseline.
#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "app/evaluation.h"
#include "app/evaluation_slices.h"
#include "base/clock.h"
#include "base/result.h"
#include "trainer/metric_set.h"

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

/// Their counts take a byte for each user.
inline constexpr std::size_t kResamplesMax = 10'000;

struct ReportOptions {
  std::vector<EvaluationWindow> windows;
  std::vector<std::string> tasks;
  std::string baseline = "ordinal";  // a variant; without it among the models: no differences
  std::size_t resamples = 1000;      // of the users; 0: no intervals
  std::uint64_t resample_seed = 1;
  SliceConfig slices;
};

/// Against the baseline, each figure variant − baseline: of the means over the seeds, with the
/// standard deviation over seed pairs (NaN for one seed) and the 95 % bootstrap interval over users
/// (2.5 and 97.5 percentiles; NaN without resamples). The interval is that of other users with
/// these trained models; other seeds are what `spread` is about.
struct Comparison {
  trainer::MetricValues difference{};
  trainer::MetricValues spread{};
  trainer::MetricValues low{};
  trainer::MetricValues high{};
};

struct VariantFigures {
  std::string variant;
  trainer::MetricValues mean{};             // over the seeds
  trainer::MetricValues spread{};           // standard deviation over the seeds (n − 1); one: NaN
  std::vector<trainer::MetricValues> runs;  // a seed each
  std::optional<Comparison> comparison;     // none for the baseline itself
};

/// One window, task and slice.
struct ReportPart {
  std::size_t window = 0;  // index into EvaluationReport::windows
  std::string task;
  std::string slice;
  std::size_t rows = 0;
  std::size_t users = 0;
  double rate = 0;  // of the label; NaN without rows
  std::vector<VariantFigures> variants;
};

/// NE over time: of the cells of each bucket against the bucket's own rate, mean over the seeds.
struct Timeline {
  std::string task;
  base::UnixMs bucket_ms = 0;
  std::vector<base::UnixMs> from_ms;           // a bucket each
  std::vector<std::size_t> rows;               // in it
  std::vector<std::vector<double>> entropies;  // [variant][bucket]; NaN where undefined
};

/// Of the last window, all seeds of a variant together.
struct CalibrationCurve {
  std::string task;
  std::string variant;
  std::array<double, trainer::kCalibrationBins> predicted{};  // mean p; NaN without cells
  std::array<double, trainer::kCalibrationBins> observed{};
  std::array<std::size_t, trainer::kCalibrationBins> cells{};
};

/// What a variant costs, by formula (model/cost.h), for a full history whose tokens all have a time
/// and tags of their own. table_bytes is of the rows that its first seed has made.
struct VariantCost {
  std::string variant;
  std::size_t dense_parameters = 0;
  std::size_t dense_bytes = 0;
  std::size_t table_bytes = 0;
  double flops_one = 0;   // one candidate
  double flops_many = 0;  // kCostCandidates candidates
};
inline constexpr std::size_t kCostCandidates = 500;

struct EvaluationReport {
  std::vector<EvaluationWindow> windows;
  std::vector<std::string> tasks;
  std::vector<std::string> variants;  // in the order of the models
  std::vector<std::uint64_t> seeds;
  std::vector<std::pair<std::string, std::string>> slices;  // name and description
  std::string baseline;                                     // "" where it is not among the variants
  std::size_t resamples = 0;
  std::vector<ReportPart> parts;  // by window, then task, then slice
  std::vector<Timeline> timelines;
  std::vector<CalibrationCurve> calibration;
  std::size_t cost_history = 0;    // tokens
  std::vector<VariantCost> costs;  // in the order of the variants
};

/// `on_progress` is told the share that is done. Models are measured in parallel; no figure depends
/// on that.
[[nodiscard]] EvaluationReport make_report(const Evaluation& evaluation,
                                           const ReportOptions& options,
                                           const std::function<void(double share)>& on_progress);

/// time_ms,user_id,item_id,task,label,probability: one row a scored exposure and task.
[[nodiscard]] base::Result<void> write_predictions(const std::string& path,
                                                   const Evaluation& evaluation, std::size_t model,
                                                   const std::vector<std::string>& tasks);

}  // namespace sirenfeed::app
