#pragma once
// Examples as they lie in their topic, one after the other: to compare two runs byte by byte. Each
// is a little-endian u32 length and the protobuf.
#include <fstream>
#include <string>
#include <string_view>

#include "base/result.h"

namespace sirenfeed::app {

/// Threads: one.
class ExampleFile {
 public:
  static base::Result<ExampleFile> create(const std::string& path);
  void append(std::string_view example);
  /// kStorage when anything could not be written.
  base::Result<void> close();

 private:
  ExampleFile(std::string path, std::ofstream file)
      : path_(std::move(path)), file_(std::move(file)) {}
  std::string path_;
  std::ofstream file_;
};

}  // namespace sirenfeed::app
