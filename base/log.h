#pragma once
// One log line is one fact: what happened, to what, and what follows. Keeps spdlog out of headers.
#include <fmt/format.h>

#include <string_view>
#include <utility>

namespace sirenfeed::base {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

struct LogConfig {
  LogLevel level = LogLevel::kInfo;
  bool json = false;  // one JSON object a line, for collectors
};

/// Call once in main. Lines go to stderr.
void configure_log(const LogConfig& config);
[[nodiscard]] bool log_enabled(LogLevel level) noexcept;
void write_log(LogLevel level, std::string_view line);

template <class... Args>
void log(LogLevel level, fmt::format_string<Args...> format, Args&&... args) {
  if (log_enabled(level)) write_log(level, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void log_debug(fmt::format_string<Args...> format, Args&&... args) {
  log(LogLevel::kDebug, format, std::forward<Args>(args)...);
}
template <class... Args>
void log_info(fmt::format_string<Args...> format, Args&&... args) {
  log(LogLevel::kInfo, format, std::forward<Args>(args)...);
}
template <class... Args>
void log_warning(fmt::format_string<Args...> format, Args&&... args) {
  log(LogLevel::kWarning, format, std::forward<Args>(args)...);
}
template <class... Args>
void log_error(fmt::format_string<Args...> format, Args&&... args) {
  log(LogLevel::kError, format, std::forward<Args>(args)...);
}

}  // namespace sirenfeed::base
