#include "base/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <string>

namespace sirenfeed::base {
namespace {

spdlog::level::level_enum to_spdlog(LogLevel level) noexcept {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
  }
  return spdlog::level::info;
}

bool json_lines = false;

spdlog::logger& logger() {
  static const std::shared_ptr<spdlog::logger> instance = [] {
    auto made = spdlog::stderr_color_mt("sirenfeed");
    made->set_pattern("%Y-%m-%dT%H:%M:%S.%e%z %^%-7l%$ %v");
    made->flush_on(spdlog::level::warn);
    return made;
  }();
  return *instance;
}

std::string json_escaped(std::string_view line) {
  std::string escaped;
  escaped.reserve(line.size());
  for (const char c : line) {
    if (c == '"' || c == '\\') {
      escaped += '\\';
      escaped += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      escaped += fmt::format("\\u{:04x}", static_cast<unsigned>(static_cast<unsigned char>(c)));
    } else {
      escaped += c;
    }
  }
  return escaped;
}

}  // namespace

void configure_log(const LogConfig& config) {
  json_lines = config.json;
  logger().set_level(to_spdlog(config.level));
  logger().set_pattern(config.json
                           ? R"({"time":"%Y-%m-%dT%H:%M:%S.%e%z","level":"%l","message":"%v"})"
                           : "%Y-%m-%dT%H:%M:%S.%e%z %^%-7l%$ %v");
}

bool log_enabled(LogLevel level) noexcept { return logger().should_log(to_spdlog(level)); }

void write_log(LogLevel level, std::string_view line) {
  if (json_lines) {
    logger().log(to_spdlog(level), "{}", json_escaped(line));
  } else {
    logger().log(to_spdlog(level), "{}", line);
  }
}

}  // namespace sirenfeed::base
