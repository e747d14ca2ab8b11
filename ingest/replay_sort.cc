#include "ingest/replay_sort.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <tuple>
#include <utility>

namespace sirenfeed::ingest {
namespace {

using base::ErrorCode;

constexpr std::size_t kFileBuffer = 256U << 10U;

struct PieceHeader {
  base::UnixMs time_ms;
  std::uint64_t row;
  std::uint64_t bytes;
};

tl::unexpected<base::Error> no_room() {
  return base::fail(ErrorCode::kStorage,
                    "a temporary file cannot be used: {} (TMPDIR chooses where it is)",
                    std::strerror(errno));
}

}  // namespace

base::Result<void> RowSorter::push(base::UnixMs time_ms, std::uint64_t row,
                                   std::string_view packed) {
  entries_.push_back({time_ms, row, bytes_.size(), packed.size()});
  bytes_ += packed;
  ++rows_;
  if (bytes_.size() + entries_.size() * sizeof(Entry) < bytes_max_) return {};
  return spill();
}

void RowSorter::sort_memory() {
  std::sort(entries_.begin(), entries_.end(), [](const Entry& a, const Entry& b) {
    return std::tie(a.time_ms, a.row) < std::tie(b.time_ms, b.row);
  });
}

base::Result<void> RowSorter::spill() {
  sort_memory();
  std::error_code error;
  std::string name = std::filesystem::temp_directory_path(error) / "sirenfeed-sort-XXXXXX";
  const int descriptor = error ? -1 : mkostemp(name.data(), O_CLOEXEC);
  if (descriptor < 0) return no_room();
  unlink(name.c_str());
  Piece piece{std::unique_ptr<std::FILE, Close>(fdopen(descriptor, "w+b")), {}};
  if (!piece.file) return no_room();
  std::setvbuf(piece.file.get(), nullptr, _IOFBF, kFileBuffer);
  for (const Entry& entry : entries_) {
    const PieceHeader header{entry.time_ms, entry.row, entry.bytes};
    const bool good =
        std::fwrite(&header, sizeof header, 1, piece.file.get()) == 1 &&
        std::fwrite(bytes_.data() + entry.begin, 1, entry.bytes, piece.file.get()) == entry.bytes;
    if (!good) return no_room();
  }
  if (std::fflush(piece.file.get()) != 0) return no_room();
  pieces_.push_back(std::move(piece));
  entries_.clear();
  bytes_.clear();
  return {};
}

base::Result<bool> RowSorter::read_head(Piece& piece) {
  PieceHeader header{};
  if (std::fread(&header, sizeof header, 1, piece.file.get()) != 1) {
    if (std::feof(piece.file.get()) != 0) return false;
    return no_room();
  }
  piece.head.time_ms = header.time_ms;
  piece.head.row = header.row;
  piece.head.packed.resize(header.bytes);
  if (std::fread(piece.head.packed.data(), 1, header.bytes, piece.file.get()) != header.bytes) {
    return no_room();
  }
  return true;
}

bool RowSorter::later(const Piece& a, const Piece& b) {
  return std::tie(a.head.time_ms, a.head.row) > std::tie(b.head.time_ms, b.head.row);
}

base::Result<void> RowSorter::finish() {
  if (pieces_.empty()) {
    sort_memory();
    return {};
  }
  if (!entries_.empty()) SF_TRY(spill());
  bytes_ = {};
  entries_ = {};
  for (Piece& piece : pieces_) {
    std::rewind(piece.file.get());
    SF_ASSIGN(const bool some, read_head(piece));
    if (!some) return no_room();
  }
  std::make_heap(pieces_.begin(), pieces_.end(), later);
  return {};
}

base::Result<std::optional<SortedRow>> RowSorter::next() {
  if (next_entry_ < entries_.size()) {
    const Entry& entry = entries_[next_entry_++];
    return SortedRow{entry.time_ms, entry.row, bytes_.substr(entry.begin, entry.bytes)};
  }
  if (pieces_.empty()) return std::nullopt;
  std::pop_heap(pieces_.begin(), pieces_.end(), later);
  std::optional<SortedRow> row(std::move(pieces_.back().head));
  SF_ASSIGN(const bool more, read_head(pieces_.back()));
  if (more) {
    std::push_heap(pieces_.begin(), pieces_.end(), later);
  } else {
    pieces_.pop_back();
  }
  return row;
}

}  // namespace sirenfeed::ingest
