#pragma once
// Which column of a table is what: --map user=uid,item=iid,time=ts,click=label.
#include <map>
#include <string>
#include <string_view>

#include "base/result.h"

namespace sirenfeed::ingest {

/// From a role to the column's name (CSV) or the member's name or JSON pointer (JSONL). Roles:
///   user, item, time   needed in a table of events
///   click              a number or flag: from click_min on the exposure was clicked
///   type               what a row is: an exposure (exposure_types) or an action of that name
///   value              the action's number
///   surface, position  of the exposure
///   impression         rows of one user, time and impression are one slate
///   author, tags, published, title   of the item; tags are split at '|' and ','
/// A table of items has item and the last four.
struct ReplayMapping {
  std::map<std::string, std::string, std::less<>> columns;

  [[nodiscard]] std::string column(std::string_view role) const;
  /// "" or what is wrong, for a table of events (or of items). kInvalidArgument names `option`.
  [[nodiscard]] base::Result<void> validate(std::string_view option, bool of_items) const;
  /// role=column,… A column whose name holds a comma goes into a file instead.
  static base::Result<ReplayMapping> parse(std::string_view text, std::string_view option);
};

}  // namespace sirenfeed::ingest
