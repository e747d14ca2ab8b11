#pragma once
// Progressive metrics of the live trainer: exact on the newest cells of each task.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace sirenfeed::trainer {

struct WindowFigures {
  std::uint64_t cells_total = 0;  // ever added
  std::size_t cells = 0;          // in the window
  double rate = 0;                // of positives
  double log_loss = 0;            // NaN where undefined, as in metrics.h
  double normalized_entropy = 0;
  double auc = 0;
  double calibration_error = 0;
};

/// A ring of the newest `cells_max` scored cells of one task. Threads: one.
class MetricWindow {
 public:
  explicit MetricWindow(std::size_t cells_max);
  void add(float probability, bool label);
  /// The cell that the n-th add() (from 0) made turns out positive; nothing where it has left.
  void relabel(std::uint64_t n);
  [[nodiscard]] std::uint64_t cells_total() const { return total_; }
  /// O(n log n) in the cells of the window.
  [[nodiscard]] WindowFigures figures() const;

  /// The checkpoint's form; restore() refuses a ring of another size or bytes that are none.
  void append_to(std::string& bytes) const;
  [[nodiscard]] static base::Result<MetricWindow> restore(std::string_view& bytes,
                                                          std::size_t cells_max);
  friend bool operator==(const MetricWindow&, const MetricWindow&) = default;

 private:
  std::size_t cells_max_;
  std::uint64_t total_ = 0;
  std::vector<float> probability_;
  std::vector<std::uint8_t> label_;
};

/// {"click":{"auc":…,"ne":…,…},…} with null where a figure is undefined: goes into the published
/// manifest.
[[nodiscard]] std::string figures_json(const std::vector<std::string>& tasks,
                                       const std::vector<WindowFigures>& figures);

}  // namespace sirenfeed::trainer
