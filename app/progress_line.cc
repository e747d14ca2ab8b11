#include "app/progress_line.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

namespace sirenfeed::app {

ProgressLine::ProgressLine(std::string what)
    : what_(std::move(what)),
      terminal_(isatty(STDERR_FILENO) == 1),
      start_(std::chrono::steady_clock::now()) {}

ProgressLine::~ProgressLine() { finish(); }

void ProgressLine::update(double share, std::uint64_t count, const char* unit) {
  if (!terminal_) return;
  const auto now = std::chrono::steady_clock::now();
  if (open_ && share < 1 && now - drawn_ < std::chrono::milliseconds(100)) return;
  drawn_ = now;
  open_ = true;
  draw(share, count, unit);
}

void ProgressLine::draw(double share, std::uint64_t count, const char* unit) const {
  constexpr std::size_t kWidth = 30;
  const double bounded = std::clamp(share, 0.0, 1.0);
  const auto filled = static_cast<std::size_t>(bounded * kWidth);
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start_;
  const double rate = static_cast<double>(count) / std::max(elapsed.count(), 1e-3);
  const double left_s = bounded > 0 ? elapsed.count() * (1 - bounded) / bounded : 0;
  fmt::print(stderr, "\r{} [{}{}] {:3.0f} %  {} {}  {:.0f}/s  {:.0f} s left   ", what_,
             std::string(filled, '#'), std::string(kWidth - filled, '.'), bounded * 100, count,
             unit, rate, left_s);
  std::fflush(stderr);
}

std::function<void(std::uint64_t)> ProgressLine::bytes_of(std::uint64_t total) {
  return [this, total, sum = std::uint64_t{0}](std::uint64_t bytes) mutable {
    sum += bytes;
    update(total == 0 ? 1 : static_cast<double>(sum) / static_cast<double>(total), sum >> 20U,
           "MiB");
  };
}

void ProgressLine::finish() {
  if (!open_) return;
  open_ = false;
  std::fputc('\n', stderr);
}

}  // namespace sirenfeed::app
