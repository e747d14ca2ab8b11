#pragma once
#include <cstdlib>
#include <filesystem>
#include <string>

#include "base/check.h"

namespace sirenfeed::bench {

/// A new folder below TMPDIR that goes with the object.
class BenchFolder {
 public:
  BenchFolder() {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "sirenfeed-bench-XXXXXX").string();
    SF_CHECK(::mkdtemp(pattern.data()) != nullptr);
    path_ = pattern;
  }
  ~BenchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  BenchFolder(const BenchFolder&) = delete;
  BenchFolder& operator=(const BenchFolder&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace sirenfeed::bench
