#pragma once
// One line on a terminal that shows how far long work has come; silent where stderr is none.
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

namespace sirenfeed::app {

/// Threads: one. The line is ended by finish() or the destructor.
class ProgressLine {
 public:
  explicit ProgressLine(std::string what);
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  /// `share` of the work in [0, 1]; redraws at most ten times a second.
  void update(double share, std::uint64_t count, const char* unit);
  /// Told of bytes that were worked off, of `total` in all.
  [[nodiscard]] std::function<void(std::uint64_t)> bytes_of(std::uint64_t total);
  void finish();

 private:
  void draw(double share, std::uint64_t count, const char* unit) const;

  const std::string what_;
  const bool terminal_;
  const std::chrono::steady_clock::time_point start_;
  std::chrono::steady_clock::time_point drawn_;
  bool open_ = false;
};

}  // namespace sirenfeed::app
