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

/// Writes it now, holds its lock while it lives and removes it when destroyed. Threads: one.
class RunFile {
 public:
  static base::Result<RunFile> write(const std::string& data_dir, const std::string& url,
                                     const std::string& token = "");
  ~RunFile();
  RunFile(RunFile&& other) noexcept;
  RunFile& operator=(RunFile&&) = delete;

 private:
  RunFile(std::string path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}
  std::string path_;
  int descriptor_ = -1;
};

/// The living process of the folder; nullopt when there is none. A file that nobody holds locked
/// was left behind by a crash and counts as none: its pid may be another process by now, and
/// always is in a new container.
[[nodiscard]] std::optional<RunningProcess> find_running(const std::string& data_dir);

}  // namespace sirenfeed::app
