#pragma once
// run.json in the data folder: how other commands find the process that owns it. Only its user may
// read it: the token lets a command ask for what writes files.
#include <optional>
#include <string>

#include "base/result.h"

namespace sirenfeed::app {

struct RunningProcess {
  int pid = 0;
  std::string url;
  std::string token;
};

/// Writes it now and removes it when destroyed. Threads: one.
class RunFile {
 public:
  static base::Result<RunFile> write(const std::string& data_dir, const std::string& url,
                                     const std::string& token = "");
  ~RunFile();
  RunFile(RunFile&& other) noexcept;
  RunFile& operator=(RunFile&&) = delete;

 private:
  explicit RunFile(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

/// The living process of the folder; nullopt when there is none (a file that a crash left behind
/// counts as none).
[[nodiscard]] std::optional<RunningProcess> find_running(const std::string& data_dir);

}  // namespace sirenfeed::app
