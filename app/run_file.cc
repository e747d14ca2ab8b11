#include "app/run_file.h"

#include <fcntl.h>
#include <sys/file.h>
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

base::Result<RunFile> RunFile::write(const std::string& data_dir, const std::string& url,
                                     const std::string& token) {
  const std::string path = data_dir + "/run.json";
  const std::string temporary = path + ".new";
  const json::object object{{"pid", getpid()}, {"url", url}, {"token", token}};
  std::remove(temporary.c_str());
  const int descriptor = open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  const std::string text = json::serialize(object) + "\n";
  const bool written =
      descriptor >= 0 && flock(descriptor, LOCK_EX | LOCK_NB) == 0 &&
      ::write(descriptor, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  if (!written || std::rename(temporary.c_str(), path.c_str()) != 0) {
    const int why = errno;
    if (descriptor >= 0) close(descriptor);
    return base::fail(base::ErrorCode::kStorage, "{}: cannot be written: {}", path,
                      std::strerror(why));
  }
  return RunFile(path, descriptor);
}

RunFile::~RunFile() {
  if (!path_.empty()) std::remove(path_.c_str());
  if (descriptor_ >= 0) close(descriptor_);
}

RunFile::RunFile(RunFile&& other) noexcept
    : path_(std::exchange(other.path_, {})), descriptor_(std::exchange(other.descriptor_, -1)) {}

namespace {

bool is_held(const std::string& path) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return false;
  const bool held = flock(descriptor, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  close(descriptor);
  return held;
}

}  // namespace

std::optional<RunningProcess> find_running(const std::string& data_dir) {
  const std::string path = data_dir + "/run.json";
  if (!is_held(path)) return std::nullopt;
  std::ifstream file(path);
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
  RunningProcess process{static_cast<int>(pid->as_int64()), std::string(url->as_string()), {}};
  const json::value* token = value.as_object().if_contains("token");
  if (token != nullptr && token->is_string()) process.token = std::string(token->as_string());
  return process;
}

}  // namespace sirenfeed::app
