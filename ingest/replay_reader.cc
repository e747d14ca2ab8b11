#include "ingest/replay_reader.h"

#include <fmt/ranges.h>

#include <array>
#include <filesystem>
#include <system_error>
#include <utility>

#include "ingest/replay_formats.h"

namespace sirenfeed::ingest {
namespace {

using base::ErrorCode;

constexpr std::array<std::pair<ReplayFormat, std::string_view>, 6> kFormats = {{
    {ReplayFormat::kEvents, "events"},
    {ReplayFormat::kKuairand, "kuairand"},
    {ReplayFormat::kMind, "mind"},
    {ReplayFormat::kMovielens, "movielens"},
    {ReplayFormat::kCsv, "csv"},
    {ReplayFormat::kJsonl, "jsonl"},
}};

/// As the data set calls it: "" where the format knows none.
std::string companion_name(std::string name, ReplayFormat format) {
  if (format == ReplayFormat::kMind) return "news.tsv";
  if (format != ReplayFormat::kMovielens) return "";
  if (name.ends_with(".gz")) name.resize(name.size() - 3);
  if (!name.ends_with(".inter")) return "movies.csv";
  return name.substr(0, name.size() - 6) + ".item";
}

}  // namespace

std::string_view replay_format_name(ReplayFormat format) noexcept {
  for (const auto& [known, name] : kFormats) {
    if (known == format) return name;
  }
  return "unknown";
}

std::optional<ReplayFormat> replay_format_from_name(std::string_view name) noexcept {
  for (const auto& [format, known] : kFormats) {
    if (known == name) return format;
  }
  return std::nullopt;
}

std::string replay_format_names() {
  std::string names;
  for (const auto& [format, name] : kFormats) {
    names += (names.empty() ? "" : ", ") + std::string(name);
  }
  return names;
}

std::string ReplayOptions::rules() const {
  return fmt::format("click_min={} click_delay_ms={} map={} items_map={} delimiter={} exposures={}",
                     click_min ? fmt::format("{}", *click_min) : "default", click_delay_ms,
                     map.columns, items_map.columns, delimiter, exposure_types);
}

base::Result<void> ReplayOptions::validate() const {
  const auto bad = [](const char* field, std::string_view expected) {
    return base::fail(ErrorCode::kInvalidArgument, "{}: expected {}", field, expected);
  };
  if (delimiter != ',' && delimiter != ';' && delimiter != '\t') {
    return bad("delimiter", "comma, semicolon or tab");
  }
  if (click_delay_ms < 0) return bad("click_delay_ms", "at least 0");
  if (sort_bytes_max == 0) return bad("sort_bytes_max", "at least 1");
  if (line_bytes_max == 0) return bad("line_bytes_max", "at least 1");
  return parser.validate();
}

std::optional<std::string> replay_items_file(const std::string& path, ReplayFormat format,
                                             const ReplayOptions& options) {
  if (format == ReplayFormat::kEvents || format == ReplayFormat::kKuairand) return std::nullopt;
  if (options.items_file == "none") return std::nullopt;
  if (options.items_file) return options.items_file;
  const std::filesystem::path file(path);
  const std::string name = companion_name(file.filename().string(), format);
  if (name.empty() || path == "-") return std::nullopt;
  std::error_code ignored;
  for (const char* suffix : {"", ".gz"}) {
    const auto beside = file.parent_path() / (name + suffix);
    if (std::filesystem::is_regular_file(beside, ignored)) return beside.string();
  }
  return std::nullopt;
}

base::Result<std::unique_ptr<ReplayReader>> open_replay(const std::string& path,
                                                        ReplayFormat format,
                                                        const ReplayOptions& options) {
  SF_TRY(options.validate());
  SF_ASSIGN(ReplayInput input, ReplayInput::open(path, options.stdin_name));
  std::optional<ReplayInput> items;
  if (const auto name = replay_items_file(path, format, options)) {
    SF_ASSIGN(items, ReplayInput::open(*name, options.stdin_name));
  }
  switch (format) {
    case ReplayFormat::kKuairand:
      return open_kuairand(std::move(input));
    case ReplayFormat::kEvents:
      return open_events(std::move(input), options);
    case ReplayFormat::kMind:
      return open_mind(std::move(input), std::move(items), options);
    case ReplayFormat::kMovielens:
      return open_movielens(std::move(input), std::move(items), options);
    case ReplayFormat::kCsv:
    case ReplayFormat::kJsonl:
      return open_table(std::move(input), std::move(items), format, options);
  }
  return base::fail(ErrorCode::kInvalidArgument, "{}: unknown format", path);
}

}  // namespace sirenfeed::ingest
