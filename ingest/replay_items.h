#pragma once
// What is known of items before they are shown: the second file of a data set, in memory. Internal
// to the replay readers.
#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "ingest/event.h"
#include "ingest/replay_rows.h"

namespace sirenfeed::ingest {

/// Items at most in a table.
inline constexpr std::size_t kItemRowsMax = 5'000'000;

class ItemTable {
 public:
  /// Which column (as the source was opened) holds what; -1: none.
  struct Columns {
    int id = 0;
    int author = -1;
    int published = -1;
    int title = -1;
    int url = -1;
    std::array<int, 2> tags = {-1, -1};
    std::string_view tag_separators = "|,";
  };
  ItemTable() = default;
  /// Errors name file, line and column. A later row of an item replaces an earlier one.
  static base::Result<ItemTable> read(RowSource& rows, const Columns& columns);

  /// Without a time; null: unknown.
  [[nodiscard]] const ItemUpdate* find(std::string_view item_id) const;

 private:
  std::unordered_map<std::string, ItemUpdate> items_;
};

/// Appends the parts of `text` between any of `separators`, each once, empty ones and MovieLens'
/// "(no genres listed)" left out.
void append_tags(std::string_view text, std::string_view separators,
                 std::vector<std::string>& tags);

}  // namespace sirenfeed::ingest
