#pragma once
// Rows of a table, whatever its file looks like: the columns that a format asks for, as text.
// Internal to the replay readers.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "ingest/replay_input.h"

namespace sirenfeed::ingest {

struct RowColumn {
  std::string name;  // as the file spells it; "" : not asked for, always empty
  bool required = false;
};

/// Errors name file and line. Threads: one.
class RowSource {
 public:
  virtual ~RowSource() = default;
  /// False: the end. After an error the source is done.
  virtual base::Result<bool> next() = 0;
  /// Column `i` of those that were asked for, valid until next(); "" where the row has nothing.
  /// Holds no NUL; may not be UTF-8.
  [[nodiscard]] std::string_view field(std::size_t i) const { return fields_[i]; }
  /// False where the file as a whole does not have column `i`.
  [[nodiscard]] virtual bool has(std::size_t i) const = 0;
  /// Of the row that next() gave, from 1.
  [[nodiscard]] virtual std::uint64_t line() const = 0;
  [[nodiscard]] virtual const ReplayInput& input() const = 0;

  /// "ratings.csv:17: rating: expected a number, got 'x'"
  [[nodiscard]] tl::unexpected<base::Error> bad_field(std::string_view column,
                                                      std::string_view expected,
                                                      std::string_view got) const;

 protected:
  std::vector<std::string_view> fields_;
};

/// Columns at most that open_csv() finds by name.
inline constexpr std::size_t kCsvColumnsMax = 16;

/// A first line with names, which may stand in any order beside others; with `quoted`, fields in
/// double quotes may hold the delimiter and "" for a quote. `delimiter`: comma, semicolon or tab.
[[nodiscard]] base::Result<std::unique_ptr<RowSource>> open_csv(ReplayInput input, char delimiter,
                                                                bool quoted,
                                                                std::vector<RowColumn> columns);
/// Tabs, no quoting and no names: exactly `columns` (5 or 8) a line.
[[nodiscard]] base::Result<std::unique_ptr<RowSource>> open_tsv(ReplayInput input,
                                                                std::size_t columns);
/// One JSON object a line. A column is a member's name, or a JSON pointer where it begins with '/'.
/// A number is taken as its digits, true and false as 1 and 0, a list as its parts joined by '|',
/// null as absent.
[[nodiscard]] base::Result<std::unique_ptr<RowSource>> open_jsonl(ReplayInput input,
                                                                  std::size_t line_bytes_max,
                                                                  std::vector<RowColumn> columns);

}  // namespace sirenfeed::ingest
