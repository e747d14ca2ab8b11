#include "app/process_metrics.h"

#include <sys/resource.h>
#include <unistd.h>

#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <limits>
#include <mutex>

#include "base/build_info.h"

namespace sirenfeed::app {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

double resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  double pages_total = 0;
  double pages_resident = 0;
  if (!(statm >> pages_total >> pages_resident)) return kUnknown;
  return pages_resident * static_cast<double>(sysconf(_SC_PAGESIZE));
}

double seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
}

}  // namespace

ProcessFigures process_figures(const std::string& data_dir) {
  ProcessFigures figures;
  figures.resident_bytes = resident_bytes();
  rusage usage{};
  figures.cpu_seconds = getrusage(RUSAGE_SELF, &usage) == 0
                            ? seconds(usage.ru_utime) + seconds(usage.ru_stime)
                            : kUnknown;
  std::error_code error;
  std::filesystem::path folder = std::filesystem::absolute(data_dir, error);
  while (!std::filesystem::exists(folder, error) && folder.has_relative_path()) {
    folder = folder.parent_path();
  }
  const std::filesystem::space_info space = std::filesystem::space(folder, error);
  figures.disk_free_bytes = error ? kUnknown : static_cast<double>(space.available);
  figures.disk_capacity_bytes = error ? kUnknown : static_cast<double>(space.capacity);
  return figures;
}

ProcessMetrics::ProcessMetrics(base::MetricsRegistry& registry, std::string data_dir)
    : data_dir_(std::move(data_dir)),
      resident_bytes_(registry.gauge("sirenfeed_app_resident_bytes", "Memory of the process.")),
      cpu_seconds_(registry.gauge("sirenfeed_app_cpu_seconds",
                                  "User and system time of the process since its start.")),
      disk_free_bytes_(registry.gauge("sirenfeed_app_disk_free_bytes",
                                      "Room on the file system of the data folder.")),
      disk_capacity_bytes_(registry.gauge("sirenfeed_app_disk_capacity_bytes",
                                          "Size of the file system of the data folder.")) {
  registry
      .gauge("sirenfeed_app_build_info", "1, with the version and commit of the binary.",
             {{"version", base::kVersion}, {"commit", base::kCommit}})
      .set(1);
  refresh();
  thread_ = std::jthread([this](const std::stop_token& stop) {
    std::mutex mutex;
    std::condition_variable_any wake;
    while (!stop.stop_requested()) {
      std::unique_lock lock(mutex);
      wake.wait_for(lock, stop, kInterval, [] { return false; });
      refresh();
    }
  });
}

void ProcessMetrics::refresh() const {
  const ProcessFigures figures = process_figures(data_dir_);
  resident_bytes_.set(figures.resident_bytes);
  cpu_seconds_.set(figures.cpu_seconds);
  disk_free_bytes_.set(figures.disk_free_bytes);
  disk_capacity_bytes_.set(figures.disk_capacity_bytes);
}

}  // namespace sirenfeed::app
