#pragma once
// Rows of a file that is not in time order, in time order, in bounded memory: what exceeds it is
// sorted in pieces that go to an unnamed temporary file each and are merged. Internal to the replay
// readers.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"

namespace sirenfeed::ingest {

struct SortedRow {
  base::UnixMs time_ms = 0;
  std::uint64_t row = 0;
  std::string packed;
};

/// Comes out by (time_ms, row). Threads: one.
class RowSorter {
 public:
  explicit RowSorter(std::size_t bytes_max) : bytes_max_(bytes_max) {}

  /// kStorage: no room for temporary files (TMPDIR chooses where they are).
  base::Result<void> push(base::UnixMs time_ms, std::uint64_t row, std::string_view packed);
  /// No push() after it.
  base::Result<void> finish();
  base::Result<std::optional<SortedRow>> next();
  [[nodiscard]] std::uint64_t rows() const { return rows_; }

 private:
  struct Entry {
    base::UnixMs time_ms;
    std::uint64_t row;
    std::size_t begin;
    std::size_t bytes;
  };
  struct Close {
    void operator()(std::FILE* file) const noexcept { std::fclose(file); }
  };
  struct Piece {
    std::unique_ptr<std::FILE, Close> file;
    SortedRow head;
  };

  void sort_memory();
  base::Result<void> spill();
  static base::Result<bool> read_head(Piece& piece);
  static bool later(const Piece& a, const Piece& b);

  const std::size_t bytes_max_;
  std::string bytes_;
  std::vector<Entry> entries_;
  std::size_t next_entry_ = 0;
  std::vector<Piece> pieces_;  // once finished: a heap, the earliest head first
  std::uint64_t rows_ = 0;
};

}  // namespace sirenfeed::ingest
