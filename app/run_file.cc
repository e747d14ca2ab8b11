#include "app/run_file.h"

#include <signal.h>
#include <unistd.h>

#include <boost/json.hpp>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

namespace sirenfeed::app {

namespace json = boost::json;

base::Result<RunFile> RunFile::write(const std::string& data_dir, const std::string& url) {
  const std::string path = data_dir + "/run.json";
  const std::string temporary = path + ".new";
  std::ofstream file(temporary);
  file << json::serialize(json::object{{"pid", getpid()}, {"url", url}}) << '\n';
  file.close();
  if (!file || std::rename(temporary.c_str(), path.c_str()) != 0) {
    return base::fail(base::ErrorCode::kStorage, "{}: cannot be written: {}", path,
                      std::strerror(errno));
  }
  return RunFile(path);
}

RunFile::~RunFile() {
  if (!path_.empty()) std::remove(path_.c_str());
}

RunFile::RunFile(RunFile&& other) noexcept : path_(std::exchange(other.path_, {})) {}

std::optional<RunningProcess> find_running(const std::string& data_dir) {
  std::ifstream file(data_dir + "/run.json");
  std::stringstream text;
  text << file.rdbuf();
  boost::system::error_code error;
  const json::value value = json::parse(text.str(), error);
  if (error || !value.is_object()) return std::nullopt;
  const json::value* pid = value.as_object().if_contains("pid");
  const json::value* url = value.as_object().if_contains("url");
  if (pid == nullptr || url == nullptr || !pid->is_int64() || !url->is_string()) {
    return std::nullopt;
  }
  RunningProcess process{static_cast<int>(pid->as_int64()), std::string(url->as_string())};
  if (kill(process.pid, 0) != 0 && errno == ESRCH) return std::nullopt;
  return process;
}

}  // namespace sirenfeed::app
