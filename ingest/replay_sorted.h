#pragma once
// What the readers of files that need not be in time order share: a first pass checks every row and
// sorts what it needs of them, then the events of one moment after the other are handed out.
// Internal to the replay readers.
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "ingest/event.h"
#include "ingest/replay_items.h"
#include "ingest/replay_order.h"
#include "ingest/replay_reader.h"
#include "ingest/replay_rows.h"
#include "ingest/replay_sort.h"

namespace sirenfeed::ingest {

/// The name without .gz and what says the format: how a file is called in ids.
[[nodiscard]] std::string id_file_name(std::string name);

/// Fields of one row in one string, and back. No field holds a NUL.
[[nodiscard]] std::string pack_fields(std::span<const std::string_view> fields);
void unpack_fields(std::string_view packed, std::vector<std::string_view>& fields);

class SortedReader : public ReplayReader {
 public:
  SortedReader(std::unique_ptr<RowSource> rows, ItemTable items, const ReplayOptions& options);

  /// The first call reads the whole file.
  base::Result<std::optional<ReplayRecord>> next() final;
  /// Once the file is read: in proportion to the rows that were handed out.
  std::uint64_t bytes_read() const final;
  std::uint64_t bytes_total() const final;

 protected:
  /// The row that `rows()` stands on as its time and what hand_out() needs of it.
  struct PackedRow {
    base::UnixMs time_ms = 0;
    std::string packed;
  };
  virtual base::Result<PackedRow> check_row() = 0;
  /// All rows of one moment, in the file's order: push() their events.
  virtual void hand_out(std::span<const SortedRow> rows) = 0;

  [[nodiscard]] const RowSource& rows() const { return *rows_; }
  [[nodiscard]] const ReplayOptions& options() const { return options_; }
  [[nodiscard]] const std::string& file() const { return file_; }
  /// Time, and the id and the UTF-8 of a field, or an error that names the column.
  [[nodiscard]] base::Result<base::UnixMs> check_time(std::size_t field, std::string_view column);
  [[nodiscard]] base::Result<void> check_id(std::size_t field, std::string_view column);
  [[nodiscard]] base::Result<void> check_text(std::size_t field, std::string_view column);
  /// nullopt for an empty field; true and false are 1 and 0.
  [[nodiscard]] base::Result<std::optional<double>> check_number(std::size_t field,
                                                                 std::string_view column);
  void push(const EventBody& body) { order_.push(body); }
  /// The event of an item that is about to be shown, the first time only. What `row` (may be null)
  /// says of it wins over the table of items.
  void push_item(std::string_view item_id, base::UnixMs time_ms, const ItemUpdate* row);

 private:
  base::Result<void> read_all();
  base::Result<void> step();

  std::unique_ptr<RowSource> rows_;
  const ItemTable items_;
  const ReplayOptions options_;
  const std::string file_;
  RowSorter sorter_;
  ReplayOrder order_;
  std::optional<SortedRow> ahead_;
  std::vector<SortedRow> group_;
  std::unordered_set<std::string> shown_before_;
  base::UnixMs newest_ms_ = 0;
  std::uint64_t handed_out_ = 0;
  bool read_ = false;
  bool ended_ = false;
};

/// "true", "false" or a finite number.
[[nodiscard]] std::optional<double> parse_replay_number(std::string_view text);

}  // namespace sirenfeed::ingest
