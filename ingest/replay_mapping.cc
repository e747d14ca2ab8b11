#include "ingest/replay_mapping.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <span>

namespace sirenfeed::ingest {

using base::ErrorCode;

constexpr std::array<std::string_view, 5> kItemRoles = {"item", "author", "tags", "published",
                                                        "title"};
constexpr std::array<std::string_view, 13> kRoles = {
    "user",     "item",       "time",   "click", "type",      "value", "surface",
    "position", "impression", "author", "tags",  "published", "title"};

std::string ReplayMapping::column(std::string_view role) const {
  const auto found = columns.find(role);
  return found == columns.end() ? "" : found->second;
}

base::Result<void> ReplayMapping::validate(std::string_view option, bool of_items) const {
  const auto known = of_items ? std::span<const std::string_view>(kItemRoles)
                              : std::span<const std::string_view>(kRoles);
  for (const auto& [role, column] : columns) {
    if (std::find(known.begin(), known.end(), role) == known.end()) {
      return base::fail(ErrorCode::kInvalidArgument, "{}: unknown role '{}', expected one of {}",
                        option, role, fmt::join(known, ", "));
    }
    if (column.empty()) {
      return base::fail(ErrorCode::kInvalidArgument, "{}: {}: expected a column", option, role);
    }
  }
  for (const std::string_view role : {"item", "user", "time"}) {
    if (of_items && role != "item") continue;
    if (!column(role).empty()) continue;
    return base::fail(ErrorCode::kInvalidArgument, "{}: {}: missing, e.g. {}={}_id", option, role,
                      role, role);
  }
  if (of_items || !column("click").empty() || !column("type").empty()) return {};
  return base::fail(ErrorCode::kInvalidArgument,
                    "{}: expected click (a label of each exposure) or type (what each row is)",
                    option);
}

base::Result<ReplayMapping> ReplayMapping::parse(std::string_view text, std::string_view option) {
  ReplayMapping mapping;
  while (!text.empty()) {
    const std::string_view pair = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), pair.size() + 1));
    const std::size_t equals = pair.find('=');
    if (equals == std::string_view::npos) {
      return base::fail(ErrorCode::kInvalidArgument, "{}: expected role=column, got '{}'", option,
                        pair);
    }
    const std::string role(pair.substr(0, equals));
    if (!mapping.columns.emplace(role, pair.substr(equals + 1)).second) {
      return base::fail(ErrorCode::kInvalidArgument, "{}: {}: given twice", option, role);
    }
  }
  return mapping;
}

}  // namespace sirenfeed::ingest
