#include "trainer/isotonic_calibrator.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "model/loss.h"
#include "trainer/byte_io.h"

namespace sirenfeed::trainer {

namespace {
constexpr double kPrior = 4.0;     // cells that stand on the diagonal at every knot
constexpr double kDiagonal = .05;  // share of the identity in the fitted layer
}  // namespace

void pool_adjacent_violators(std::span<double> value, std::span<const double> weight) {
  struct Pool {
    double mean = 0;
    double weight = 0;
    std::size_t end = 0;
  };
  std::vector<Pool> pools;
  for (std::size_t i = 0; i < value.size(); ++i) {
    pools.push_back({value[i], weight[i], i + 1});
    while (pools.size() > 1 && pools[pools.size() - 2].mean >= pools.back().mean) {
      const Pool last = pools.back();
      pools.pop_back();
      Pool& before = pools.back();
      const double total = before.weight + last.weight;
      before.mean += (last.mean - before.mean) * last.weight / total;
      before.weight = total;
      before.end = last.end;
    }
  }
  std::size_t i = 0;
  for (const Pool& pool : pools) {
    for (; i < pool.end; ++i) value[i] = pool.mean;
  }
}

IsotonicCalibrator::IsotonicCalibrator(const model::Calibration& start,
                                       const OptimizerConfig& config)
    : tasks_(start.scale.size()),
      knots_(start.knot_x.size() / start.scale.size()),
      fit_batches_(config.isotonic_batches),
      half_life_cells_(config.isotonic_half_life_cells),
      batch_cells_(tasks_, 0.0),
      weight_(start.knot_x.size(), 0.0),
      positive_(start.knot_x.size(), 0.0) {}

void IsotonicCalibrator::add(const model::Calibration& calibration, std::span<const float> z,
                             const model::SlateLabels& labels) {
  SF_CHECK(z.size() == labels.label.size());
  for (std::size_t cell = 0; cell < z.size(); ++cell) {
    const double weight = labels.weight[cell];
    if (weight == 0) continue;
    const std::size_t task = cell % tasks_;
    const auto x = std::span(calibration.knot_x).subspan(task * knots_, knots_);
    const auto above =
        static_cast<std::size_t>(std::upper_bound(x.begin(), x.end(), z[cell]) - x.begin());
    const std::size_t right = std::clamp<std::size_t>(above, 1, knots_ - 1);
    const double share = std::clamp((static_cast<double>(z[cell]) - x[right - 1]) /
                                        (static_cast<double>(x[right]) - x[right - 1]),
                                    0.0, 1.0);
    const std::size_t at = task * knots_ + right;
    if (!labels.correction) {  // a fake negative that turns out positive was counted then
      weight_[at] += share * weight;
      weight_[at - 1] += (1 - share) * weight;
    }
    positive_[at] += share * weight * labels.label[cell];
    positive_[at - 1] += (1 - share) * weight * labels.label[cell];
    batch_cells_[task] += 1;
  }
}

void IsotonicCalibrator::fit(model::Calibration& calibration, std::size_t task) {
  const std::size_t begin = task * knots_;
  std::vector<double> value(knots_);
  std::vector<double> weight(knots_);
  for (std::size_t j = 0; j < knots_; ++j) {
    weight[j] = weight_[begin + j] + kPrior;
    value[j] =
        (positive_[begin + j] + kPrior * model::sigmoid(calibration.knot_x[begin + j])) / weight[j];
  }
  pool_adjacent_violators(value, weight);
  for (std::size_t j = 0; j < knots_; ++j) {
    const double p = std::clamp(value[j], 1e-7, 1 - 1e-7);
    calibration.knot_y[begin + j] = static_cast<float>((1 - kDiagonal) * std::log(p / (1 - p)) +
                                                       kDiagonal * calibration.knot_x[begin + j]);
  }
}

void IsotonicCalibrator::step(model::Calibration& calibration) {
  for (std::size_t task = 0; task < tasks_; ++task) {
    const double keep = std::exp2(-batch_cells_[task] / half_life_cells_);
    batch_cells_[task] = 0;
    for (std::size_t j = 0; j < knots_; ++j) {
      weight_[task * knots_ + j] *= keep;
      positive_[task * knots_ + j] *= keep;
    }
  }
  if (++batches_ % fit_batches_ != 0) return;
  for (std::size_t task = 0; task < tasks_; ++task) fit(calibration, task);
}

void IsotonicCalibrator::append_to(std::string& bytes) const {
  put(bytes, batches_);
  put_vector(bytes, weight_);
  put_vector(bytes, positive_);
}

base::Result<void> IsotonicCalibrator::restore(std::string_view& bytes) {
  const std::size_t expected = weight_.size();
  SF_TRY(take(bytes, batches_, "isotonic calibration"));
  SF_TRY(take_vector(bytes, weight_, "isotonic calibration"));
  SF_TRY(take_vector(bytes, positive_, "isotonic calibration"));
  if (weight_.size() != expected || positive_.size() != expected) {
    return base::fail(base::ErrorCode::kCorrupt, "isotonic calibration of {} knots, expected {}",
                      weight_.size(), expected);
  }
  return {};
}

}  // namespace sirenfeed::trainer
