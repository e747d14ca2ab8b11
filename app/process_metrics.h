#pragma once
// What the process itself costs and what it runs on: memory, CPU, room on the data folder's disk,
// build. Kept fresh by a thread of its own.
#include <chrono>
#include <string>
#include <thread>

#include "base/metrics.h"

namespace sirenfeed::app {

struct ProcessFigures {
  double resident_bytes = 0;
  double cpu_seconds = 0;          // user and system, since the start
  double disk_free_bytes = 0;      // to this process, on the data folder's file system
  double disk_capacity_bytes = 0;  // of that file system
};

/// `data_dir` need not exist yet: then its nearest existing parent is asked. A figure that the
/// system does not give is NaN.
[[nodiscard]] ProcessFigures process_figures(const std::string& data_dir);

/// Threads: owns one, which ends with the object.
class ProcessMetrics {
 public:
  static constexpr std::chrono::seconds kInterval{5};

  /// `registry` outlives it.
  ProcessMetrics(base::MetricsRegistry& registry, std::string data_dir);
  ProcessMetrics(const ProcessMetrics&) = delete;
  ProcessMetrics& operator=(const ProcessMetrics&) = delete;

 private:
  void refresh() const;

  const std::string data_dir_;
  const base::Gauge resident_bytes_;
  const base::Gauge cpu_seconds_;
  const base::Gauge disk_free_bytes_;
  const base::Gauge disk_capacity_bytes_;
  std::jthread thread_;  // last: it uses the others
};

}  // namespace sirenfeed::app
