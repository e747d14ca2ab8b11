#include "trainer/metric_window.h"

#include <cmath>

#include "base/check.h"
#include "trainer/byte_io.h"
#include "trainer/metrics.h"

namespace sirenfeed::trainer {

MetricWindow::MetricWindow(std::size_t cells_max) : cells_max_(cells_max) {
  SF_CHECK(cells_max > 0);
}

void MetricWindow::add(float probability, bool label) {
  const std::uint8_t bit = label ? 1 : 0;
  if (probability_.size() < cells_max_) {
    probability_.push_back(probability);
    label_.push_back(bit);
  } else {
    const std::size_t slot = total_ % cells_max_;
    probability_[slot] = probability;
    label_[slot] = bit;
  }
  ++total_;
}

void MetricWindow::relabel(std::uint64_t n) {
  if (n < total_ && total_ - n <= label_.size()) label_[n % cells_max_] = 1;
}

WindowFigures MetricWindow::figures() const {
  const std::vector<double> probability(probability_.begin(), probability_.end());
  const Scored scored{.probability = probability, .label = label_};
  double positives = 0;
  for (const std::uint8_t bit : label_) positives += bit;
  return {.cells_total = total_,
          .cells = label_.size(),
          .rate = positives / static_cast<double>(label_.size()),
          .log_loss = trainer::log_loss(scored),
          .normalized_entropy = trainer::normalized_entropy(scored),
          .auc = trainer::auc(scored),
          .calibration_error = expected_calibration_error(scored)};
}

void MetricWindow::append_to(std::string& bytes) const {
  put(bytes, static_cast<std::uint64_t>(cells_max_));
  put(bytes, total_);
  put_vector(bytes, probability_);
  put_vector(bytes, label_);
}

base::Result<MetricWindow> MetricWindow::restore(std::string_view& bytes, std::size_t cells_max) {
  MetricWindow window(cells_max);
  std::uint64_t stored_max = 0;
  SF_TRY(take(bytes, stored_max, "metric window"));
  SF_TRY(take(bytes, window.total_, "metric window"));
  SF_TRY(take_vector(bytes, window.probability_, "metric window"));
  SF_TRY(take_vector(bytes, window.label_, "metric window"));
  const std::uint64_t held = std::min<std::uint64_t>(window.total_, cells_max);
  if (stored_max != cells_max || window.probability_.size() != held ||
      window.label_.size() != held) {
    return base::fail(base::ErrorCode::kCorrupt,
                      "metric window of {} cells, at most {}: expected {} of at most {}",
                      window.probability_.size(), stored_max, held, cells_max);
  }
  return window;
}

namespace {

// JSON has no NaN.
std::string number_or_null(double value) {
  return std::isfinite(value) ? fmt::format("{:.6f}", value) : "null";
}

}  // namespace

std::string figures_json(const std::vector<std::string>& tasks,
                         const std::vector<WindowFigures>& figures) {
  SF_CHECK(tasks.size() == figures.size());
  std::string json = "{";
  for (std::size_t k = 0; k < tasks.size(); ++k) {
    const WindowFigures& f = figures[k];
    json += fmt::format(R"({}"{}":{{"cells_total":{},"cells":{},"rate":{},"log_loss":{},"ne":{},)"
                        R"("auc":{},"ece":{}}})",
                        k == 0 ? "" : ",", tasks[k], f.cells_total, f.cells, number_or_null(f.rate),
                        number_or_null(f.log_loss), number_or_null(f.normalized_entropy),
                        number_or_null(f.auc), number_or_null(f.calibration_error));
  }
  return json + "}";
}

}  // namespace sirenfeed::trainer
