#include "app/example_file.h"

#include <array>
#include <cstdint>

namespace sirenfeed::app {

base::Result<ExampleFile> ExampleFile::create(const std::string& path) {
  std::ofstream file(path, std::ios::binary);
  if (!file) return base::fail(base::ErrorCode::kStorage, "{}: cannot be written", path);
  return ExampleFile(path, std::move(file));
}

void ExampleFile::append(std::string_view example) {
  const auto size = static_cast<std::uint32_t>(example.size());
  const std::array<char, 4> length = {
      static_cast<char>(size & 0xffU), static_cast<char>(size >> 8U & 0xffU),
      static_cast<char>(size >> 16U & 0xffU), static_cast<char>(size >> 24U)};
  file_.write(length.data(), length.size());
  file_.write(example.data(), static_cast<std::streamsize>(example.size()));
}

base::Result<void> ExampleFile::close() {
  file_.close();
  if (!file_) return base::fail(base::ErrorCode::kStorage, "{}: cannot be written", path_);
  return {};
}

}  // namespace sirenfeed::app
