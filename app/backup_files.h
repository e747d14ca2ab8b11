#pragma once
// Files of a backup: copied or linked durably, listed, summed. Failures are kStorage, kNotFound or
// kCorrupt and name the path.
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace sirenfeed::app {

/// Told of bytes that were worked off.
using BytesDone = std::function<void(std::uint64_t)>;

/// The first `bytes` of a file (nullopt: all), fsynced. Makes folders as needed.
base::Result<void> copy_durably(const std::filesystem::path& from, const std::filesystem::path& to,
                                std::optional<std::uint64_t> bytes = std::nullopt,
                                const BytesDone& done = {});
/// For a file that never changes again: a hard link, or a copy where there can be none.
base::Result<void> link_file(const std::filesystem::path& from, const std::filesystem::path& to);
/// xxh3_64 of the whole file.
base::Result<std::uint64_t> hash_file(const std::filesystem::path& path);
/// Regular files below `dir`, relative to it, in order.
base::Result<std::vector<std::string>> list_files(const std::filesystem::path& dir);
/// Makes the creation of everything below `dir`, and of itself, durable.
base::Result<void> sync_folders(const std::filesystem::path& dir);
/// Another file system begins there: it can be renamed neither to nor from.
bool is_mount_point(const std::filesystem::path& dir);
/// Absent or without entries.
bool is_empty_folder(const std::filesystem::path& dir);

}  // namespace sirenfeed::app
