#pragma once
// Whole files with durability. Failures are kNotFound or kStorage and name the path.
#include <string>
#include <string_view>

#include "base/result.h"

namespace sirenfeed::model {

[[nodiscard]] base::Result<std::string> read_file(const std::string& path);
/// Writes and fsyncs.
[[nodiscard]] base::Result<void> write_file(const std::string& path, std::string_view bytes);
/// Makes renames and creations in the folder durable.
[[nodiscard]] base::Result<void> sync_folder(const std::string& path);
/// write_file beside `path`, rename over it, sync the folder: readers see the old or the new.
[[nodiscard]] base::Result<void> replace_file(const std::string& path, std::string_view bytes);

}  // namespace sirenfeed::model
