#include "app/replay_arguments.h"

#include <fstream>

namespace sirenfeed::app {
namespace {

using base::ErrorCode;
using base::fail;

constexpr const char* kMapHelp =
    "csv, jsonl: ROLE=COLUMN,… or a TOML file of them. Roles: user, item, time; click (a label) or "
    "type (an event's name); value, surface, position, impression, author, tags, published, title. "
    "In jsonl a column may be a JSON pointer";

/// Lines `role = "column"`; those under [items] go to `items`.
base::Result<void> read_map_file(const std::string& path, ingest::ReplayMapping& map,
                                 ingest::ReplayMapping& items) {
  std::ifstream file(path);
  if (!file) return fail(ErrorCode::kNotFound, "--map: {}: cannot be read", path);
  for (const CLI::ConfigItem& item : CLI::ConfigTOML().from_config(file)) {
    if (item.name == "++" || item.name == "--") continue;  // opens or closes a section
    const bool of_items = !item.parents.empty() && item.parents.front() == "items";
    if (item.inputs.size() != 1 || (!item.parents.empty() && !of_items)) {
      return fail(ErrorCode::kInvalidArgument, "--map: {}: {}: expected role = \"column\"", path,
                  item.fullname());
    }
    (of_items ? items : map).columns[item.name] = item.inputs.front();
  }
  return {};
}

base::Result<void> read_maps(const ReplayArguments& arguments, ingest::ReplayOptions& options) {
  if (arguments.map.find('=') == std::string::npos && !arguments.map.empty()) {
    SF_TRY(read_map_file(arguments.map, options.map, options.items_map));
  } else {
    SF_ASSIGN(options.map, ingest::ReplayMapping::parse(arguments.map, "--map"));
  }
  if (!arguments.items_map.empty()) {
    SF_ASSIGN(options.items_map, ingest::ReplayMapping::parse(arguments.items_map, "--items-map"));
  }
  SF_TRY(options.map.validate("--map", false));
  if (!options.items_file || *options.items_file == "none") return {};
  return options.items_map.validate("--items-map", true);
}

base::Result<char> parse_delimiter(const std::string& text) {
  if (text == "," || text == ";") return text.front();
  if (text == "tab" || text == "\t") return '\t';
  return fail(ErrorCode::kInvalidArgument, "--delimiter: expected a comma, a semicolon or tab");
}

}  // namespace

void add_replay_arguments(CLI::App& command, ReplayArguments& arguments) {
  command.add_option("--format", arguments.format, ingest::replay_format_names())
      ->capture_default_str();
  command.add_option(
      "--items", arguments.items_file,
      "The file of items; none: without. Default: mind news.tsv, movielens movies.csv "
      "or NAME.item beside the input; csv and jsonl none");
  command.add_option("--click-min", arguments.click_min,
                     "movielens, csv, jsonl: an exposure is clicked from this rating or label on "
                     "(default 4 for ratings, 1 for labels)");
  command
      .add_option("--click-delay-ms", arguments.click_delay_ms,
                  "mind, movielens, csv, jsonl: a click's time after its exposure")
      ->capture_default_str();
  command.add_option("--map", arguments.map, kMapHelp);
  command.add_option("--items-map", arguments.items_map,
                     "csv, jsonl: the same for --items: item, author, tags, published, title");
  command.add_option("--delimiter", arguments.delimiter, "csv: comma, semicolon or tab")
      ->capture_default_str();
  command
      .add_option("--exposure-types", arguments.exposure_types,
                  "csv, jsonl with a type: which are exposures; others are actions")
      ->delimiter(',')
      ->capture_default_str();
}

base::Result<ReplayChoice> replay_choice(const ReplayArguments& arguments,
                                         const Settings& settings) {
  ReplayChoice choice;
  const auto format = ingest::replay_format_from_name(arguments.format);
  if (!format) {
    return fail(ErrorCode::kInvalidArgument, "--format: expected one of {}, got '{}'",
                ingest::replay_format_names(), arguments.format);
  }
  choice.format = *format;
  ingest::ReplayOptions& options = choice.options;
  options.parser = settings.ingest.parser;
  options.click_min = arguments.click_min;
  options.click_delay_ms = arguments.click_delay_ms;
  options.exposure_types = arguments.exposure_types;
  if (!arguments.items_file.empty()) options.items_file = arguments.items_file;
  SF_ASSIGN(options.delimiter, parse_delimiter(arguments.delimiter));
  if (options.click_delay_ms < 0) {
    return fail(ErrorCode::kInvalidArgument, "--click-delay-ms: expected at least 0");
  }
  const bool is_table =
      *format == ingest::ReplayFormat::kCsv || *format == ingest::ReplayFormat::kJsonl;
  if (is_table) SF_TRY(read_maps(arguments, options));
  return choice;
}

}  // namespace sirenfeed::app
