#include <fmt/format.h>

#include <fstream>

#include "app/evaluation_report.h"

namespace sirenfeed::app {
namespace {

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

base::Result<void> write_predictions(const std::string& path, const Evaluation& evaluation,
                                     std::size_t model, const std::vector<std::string>& tasks) {
  std::ofstream file(path);
  file << "time_ms,user_id,item_id,task,label,probability\n";
  fmt::memory_buffer line;
  for (std::size_t i = 0; i < evaluation.rows.size(); ++i) {
    const trainer::ExposureRow& row = evaluation.rows[i];
    for (std::size_t task = 0; task < tasks.size(); ++task) {
      if (!row.known(task)) continue;
      line.clear();
      fmt::format_to(std::back_inserter(line), "{},{},{},{},{},{:.9g}\n", row.time_ms,
                     csv_field(row.user_id), csv_field(row.item_id), csv_field(tasks[task]),
                     row.label(task) ? 1 : 0,
                     evaluation.models[model].probability(i, task, tasks.size()));
      file.write(line.data(), static_cast<std::streamsize>(line.size()));
    }
  }
  file.close();
  if (!file) return base::fail(base::ErrorCode::kStorage, "{}: cannot be written", path);
  return {};
}

}  // namespace sirenfeed::app
