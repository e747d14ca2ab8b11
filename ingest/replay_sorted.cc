#include "ingest/replay_sorted.h"

#include <simdjson.h>

#include <charconv>
#include <cmath>
#include <utility>

#include "ingest/event_json.h"
#include "ingest/replay_time.h"

namespace sirenfeed::ingest {

std::string id_file_name(std::string name) {
  for (const std::string_view suffix :
       {".gz", ".csv", ".tsv", ".inter", ".jsonl", ".ndjson", ".json"}) {
    if (name.ends_with(suffix)) name.resize(name.size() - suffix.size());
  }
  return name;
}

std::string pack_fields(std::span<const std::string_view> fields) {
  std::string packed;
  for (const std::string_view field : fields) {
    packed += field;
    packed += '\0';
  }
  return packed;
}

void unpack_fields(std::string_view packed, std::vector<std::string_view>& fields) {
  fields.clear();
  while (!packed.empty()) {
    const std::size_t end = packed.find('\0');
    fields.push_back(packed.substr(0, end));
    packed.remove_prefix(end + 1);
  }
}

std::optional<double> parse_replay_number(std::string_view text) {
  if (text == "true" || text == "True") return 1.0;
  if (text == "false" || text == "False") return 0.0;
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  return whole && std::isfinite(value) ? std::optional(value) : std::nullopt;
}

SortedReader::SortedReader(std::unique_ptr<RowSource> rows, ItemTable items,
                           const ReplayOptions& options)
    : rows_(std::move(rows)),
      items_(std::move(items)),
      options_(options),
      file_(id_file_name(rows_->input().name())),
      sorter_(options.sort_bytes_max) {}

base::Result<std::optional<ReplayRecord>> SortedReader::next() {
  while (true) {
    if (read_) {
      auto record = order_.pop_before(ended_ ? std::nullopt : std::optional(newest_ms_));
      if (record || ended_) return record;
    }
    auto done = std::exchange(read_, true) ? step() : read_all();
    if (done) continue;
    ended_ = true;
    order_.clear();
    return base::fail(std::move(done).error());
  }
}

std::uint64_t SortedReader::bytes_read() const {
  if (!ahead_ && handed_out_ == 0) return 0;
  const double share = static_cast<double>(handed_out_) / static_cast<double>(sorter_.rows());
  return static_cast<std::uint64_t>(share * static_cast<double>(bytes_total()));
}
std::uint64_t SortedReader::bytes_total() const { return rows_->input().bytes_total(); }

base::Result<void> SortedReader::read_all() {
  for (std::uint64_t row = 1;; ++row) {
    SF_ASSIGN(const bool more, rows_->next());
    if (!more) break;
    SF_ASSIGN(const PackedRow packed, check_row());
    SF_TRY(sorter_.push(packed.time_ms, row, packed.packed));
  }
  SF_TRY(sorter_.finish());
  SF_ASSIGN(ahead_, sorter_.next());
  return {};
}

base::Result<void> SortedReader::step() {
  if (!ahead_) {
    ended_ = true;
    return {};
  }
  newest_ms_ = ahead_->time_ms;
  group_.clear();
  while (ahead_ && ahead_->time_ms == newest_ms_) {
    group_.push_back(*std::exchange(ahead_, std::nullopt));
    SF_ASSIGN(ahead_, sorter_.next());
  }
  hand_out(group_);
  handed_out_ += group_.size();
  return {};
}

base::Result<base::UnixMs> SortedReader::check_time(std::size_t field, std::string_view column) {
  const auto time_ms = parse_replay_time(rows_->field(field));
  if (!time_ms) return rows_->bad_field(column, kReplayTimes, rows_->field(field));
  if (*time_ms < options_.parser.timestamp_min_ms) {
    return rows_->bad_field(
        column, fmt::format("at least {} ms (timestamp_min)", options_.parser.timestamp_min_ms),
        rows_->field(field));
  }
  return *time_ms;
}

base::Result<void> SortedReader::check_text(std::size_t field, std::string_view column) {
  const std::string_view text = rows_->field(field);
  if (simdjson::validate_utf8(text.data(), text.size())) return {};
  return rows_->bad_field(column, "UTF-8", text);
}

base::Result<void> SortedReader::check_id(std::size_t field, std::string_view column) {
  if (rows_->field(field).empty()) return rows_->bad_field(column, "an id", "");
  return check_text(field, column);
}

base::Result<std::optional<double>> SortedReader::check_number(std::size_t field,
                                                               std::string_view column) {
  const std::string_view text = rows_->field(field);
  if (text.empty()) return std::nullopt;
  const auto number = parse_replay_number(text);
  if (!number) return rows_->bad_field(column, "a number", text);
  return number;
}

void SortedReader::push_item(std::string_view item_id, base::UnixMs time_ms,
                             const ItemUpdate* row) {
  if (!shown_before_.emplace(item_id).second) return;
  const ItemUpdate* const known = items_.find(item_id);
  ItemUpdate item = known == nullptr ? ItemUpdate{} : *known;
  item.item_id = item_id;
  item.time_ms = time_ms;
  if (row != nullptr) {
    if (row->author_id) item.author_id = row->author_id;
    if (row->title) item.title = row->title;
    if (row->published_at_ms) item.published_at_ms = row->published_at_ms;
    if (!row->tags.empty()) item.tags = row->tags;
  }
  push(std::move(item));
}

}  // namespace sirenfeed::ingest
