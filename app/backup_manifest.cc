#include "app/backup_manifest.h"

#include <algorithm>
#include <boost/json.hpp>
#include <charconv>
#include <filesystem>

#include "model/file_io.h"

namespace sirenfeed::app {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;
using base::ErrorCode;
using base::fail;

constexpr const char* kName = "manifest.json";

/// Reads members and remembers the first that is missing or of another type.
class Members {
 public:
  explicit Members(const json::value& value) : object_(value.if_object()) {}
  template <class T>
  void number(const char* name, T& out) {
    boost::system::error_code error;
    const json::value* member = find(name);
    if (member != nullptr) out = member->to_number<T>(error);
    if (member == nullptr || error) note(name);
  }
  void text(const char* name, std::string& out) {
    const json::value* member = find(name);
    const json::string* text = member == nullptr ? nullptr : member->if_string();
    if (text == nullptr) return note(name);
    out = std::string(std::string_view(*text));
  }
  void hash(const char* name, std::uint64_t& out) {
    std::string digits;
    text(name, digits);
    const char* end = digits.data() + digits.size();
    if (std::from_chars(digits.data(), end, out, 16).ptr != end || digits.size() != 16) note(name);
  }
  template <class F>
  void each(const char* name, const F& visit) {
    const json::value* member = find(name);
    const json::array* array = member == nullptr ? nullptr : member->if_array();
    if (array == nullptr) return note(name);
    for (const json::value& value : *array) {
      const std::string wrong = visit(value);
      if (!wrong.empty()) note(fmt::format("{}.{}", name, wrong));
    }
  }
  [[nodiscard]] const std::string& wrong() const { return wrong_; }

 private:
  const json::value* find(const char* name) {
    return object_ == nullptr ? nullptr : object_->if_contains(name);
  }
  void note(std::string name) {
    if (wrong_.empty()) wrong_ = std::move(name);
  }
  const json::object* object_;
  std::string wrong_;
};

}  // namespace

bool BackupManifest::has(std::string_view part) const {
  return std::find(parts.begin(), parts.end(), part) != parts.end();
}

std::uint64_t BackupManifest::bytes() const {
  std::uint64_t sum = 0;
  for (const BackupFile& file : files) sum += file.bytes;
  return sum;
}

std::string manifest_to_json(const BackupManifest& manifest) {
  json::array positions;
  for (const BackupPosition& at : manifest.positions) {
    positions.push_back({{"topic", at.topic},
                         {"partition", at.partition},
                         {"offset", at.offset},
                         {"time", at.time_ms}});
  }
  json::array files;
  for (const BackupFile& file : manifest.files) {
    files.push_back({{"path", file.path},
                     {"bytes", file.bytes},
                     {"xxh3_64", fmt::format("{:016x}", file.xxh3)}});
  }
  const json::object object{
      {"format", manifest.format},         {"version", manifest.version},
      {"commit", manifest.commit},         {"build", manifest.build},
      {"created_ms", manifest.created_ms}, {"state_format", manifest.state_format},
      {"partitions", manifest.partitions}, {"parts", json::value_from(manifest.parts)},
      {"positions", std::move(positions)}, {"files", std::move(files)}};
  return json::serialize(object) + "\n";
}

base::Result<BackupManifest> read_backup_manifest(const std::string& dir) {
  const std::string path = dir + "/" + kName;
  const auto text = model::read_file(path);
  if (!text && text.error().code == ErrorCode::kNotFound) {
    return fail(ErrorCode::kNotFound,
                "{}: no backup (or one that was not finished): there is no {}", dir, kName);
  }
  if (!text) return fail(text.error());
  return parse_backup_manifest(*text, path);
}

base::Result<BackupManifest> parse_backup_manifest(const std::string& text,
                                                   const std::string& path) {
  boost::system::error_code error;
  const json::value value = json::parse(text, error);
  if (error) return fail(ErrorCode::kCorrupt, "{}: not JSON: {}", path, error.message());
  BackupManifest manifest;
  Members members(value);
  members.number("format", manifest.format);
  if (members.wrong().empty() && manifest.format > kBackupFormat) {
    return fail(ErrorCode::kCorrupt,
                "{}: has format {}, this binary knows up to {}: a newer sirenfeed made it", path,
                manifest.format, kBackupFormat);
  }
  members.text("version", manifest.version);
  members.text("commit", manifest.commit);
  members.text("build", manifest.build);
  members.number("created_ms", manifest.created_ms);
  members.number("state_format", manifest.state_format);
  members.number("partitions", manifest.partitions);
  members.each("parts", [&](const json::value& part) -> std::string {
    if (!part.is_string()) return "name";
    manifest.parts.emplace_back(part.as_string());
    return {};
  });
  members.each("positions", [&](const json::value& each) {
    BackupPosition& at = manifest.positions.emplace_back();
    Members of(each);
    of.text("topic", at.topic);
    of.number("partition", at.partition);
    of.number("offset", at.offset);
    of.number("time", at.time_ms);
    return of.wrong();
  });
  members.each("files", [&](const json::value& each) {
    BackupFile& file = manifest.files.emplace_back();
    Members of(each);
    of.text("path", file.path);
    of.number("bytes", file.bytes);
    of.hash("xxh3_64", file.xxh3);
    // A path of a damaged manifest must not lead out of the folder.
    const fs::path path(file.path);
    const bool outside =
        path.is_absolute() || std::find(path.begin(), path.end(), "..") != path.end();
    return outside ? std::string("path") : of.wrong();
  });
  if (!members.wrong().empty()) {
    return fail(ErrorCode::kCorrupt, "{}: {} is missing or malformed", path, members.wrong());
  }
  return manifest;
}

base::Result<std::vector<BackupFile>> sum_files(const std::string& dir, const BytesDone& done) {
  SF_ASSIGN(const auto paths, list_files(dir));
  std::vector<BackupFile> files;
  for (const std::string& path : paths) {
    if (path == kName) continue;
    const fs::path full = fs::path(dir) / path;
    std::error_code error;
    BackupFile file{path, fs::file_size(full, error), 0};
    SF_ASSIGN(file.xxh3, hash_file(full));
    if (done) done(file.bytes);
    files.push_back(std::move(file));
  }
  return files;
}

base::Result<void> verify_files(const std::string& dir, const BackupManifest& manifest,
                                const BytesDone& done) {
  SF_ASSIGN(auto paths, list_files(dir));
  std::erase(paths, kName);
  for (const BackupFile& file : manifest.files) {
    const fs::path full = fs::path(dir) / file.path;
    std::error_code error;
    const std::uint64_t bytes = fs::file_size(full, error);
    if (error) return fail(ErrorCode::kCorrupt, "{}: is missing", full.string());
    if (bytes != file.bytes) {
      return fail(ErrorCode::kCorrupt, "{}: has {} bytes, the manifest says {}", full.string(),
                  bytes, file.bytes);
    }
    SF_ASSIGN(const std::uint64_t hash, hash_file(full));
    if (hash != file.xxh3) {
      return fail(ErrorCode::kCorrupt, "{}: is damaged: its check-sum is {:016x}, not {:016x}",
                  full.string(), hash, file.xxh3);
    }
    std::erase(paths, file.path);
    if (done) done(bytes);
  }
  if (!paths.empty()) {
    return fail(ErrorCode::kCorrupt, "{}/{}: is not of this backup", dir, paths.front());
  }
  return {};
}

}  // namespace sirenfeed::app
