// Format `kuairand`: the CSV of KuaiRand-Pure, by the convention in replay_reader.h.
#include <simdjson.h>

#include <algorithm>
#include <charconv>
#include <unordered_set>
#include <utility>

#include "ingest/event_json.h"
#include "ingest/event_time.h"
#include "ingest/replay_formats.h"
#include "ingest/replay_items.h"
#include "ingest/replay_order.h"
#include "ingest/replay_rows.h"
#include "ingest/replay_sorted.h"

namespace sirenfeed::ingest {
namespace {

using base::ErrorCode;

constexpr base::UnixMs kClickDelayMs = 1'000;
constexpr base::UnixMs kPlayMaxMs = 600'000;
constexpr base::UnixMs kTimeEnd = 253'402'300'800'000;  // year 10000

enum Column : std::size_t {
  kTimeMs,
  kUserId,
  kVideoId,
  kAuthorId,
  kTag,
  kTab,
  kIsClick,
  kLongView,
  kIsLike,
  kIsHate,
  kPlayTimeMs,
  kDurationMs,
  kUploadDt,
};
constexpr const char* kColumnNames[] = {
    "time_ms",   "user_id", "video_id", "author_id",    "tag",         "tab",      "is_click",
    "long_view", "is_like", "is_hate",  "play_time_ms", "duration_ms", "upload_dt"};

struct Row {
  base::UnixMs time_ms = 0;
  std::string_view user_id, video_id, author_id, tag, tab, upload_dt;
  bool is_click = false, long_view = false, is_like = false, is_hate = false;
  std::int64_t play_time_ms = 0;
  std::optional<std::int64_t> duration_ms;
};

class KuairandReader final : public ReplayReader {
 public:
  explicit KuairandReader(std::unique_ptr<RowSource> rows)
      : rows_(std::move(rows)), file_(id_file_name(rows_->input().name())) {}

  base::Result<std::optional<ReplayRecord>> next() override {
    while (true) {
      auto record = order_.pop_before(ended_ ? std::nullopt : std::optional(newest_ms_));
      if (record || ended_) return record;
      auto read = read_row();
      if (read) continue;
      ended_ = true;
      order_.clear();
      return base::fail(std::move(read).error());
    }
  }
  std::uint64_t bytes_read() const override { return rows_->input().bytes_read(); }
  std::uint64_t bytes_total() const override { return rows_->input().bytes_total(); }

 private:
  [[nodiscard]] std::string_view field(Column column) const { return rows_->field(column); }

  base::Result<std::int64_t> integer(std::string_view column, std::string_view text,
                                     std::int64_t least) {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) {
      return rows_->bad_field(column, "an integer", text);
    }
    if (value < least) return rows_->bad_field(column, fmt::format("at least {}", least), text);
    return value;
  }
  base::Result<bool> flag(std::string_view column, std::string_view text) {
    if (text != "0" && text != "1") return rows_->bad_field(column, "0 or 1", text);
    return text == "1";
  }
  base::Result<std::string_view> name(std::string_view column, std::string_view text, bool needed) {
    if (!simdjson::validate_utf8(text.data(), text.size()))
      return rows_->bad_field(column, "UTF-8", text);
    if (needed && text.empty()) return rows_->bad_field(column, "an id", text);
    return text;
  }

  base::Result<void> read_row() {
    SF_ASSIGN(const bool more, rows_->next());
    if (!more) {
      ended_ = true;
      return {};
    }
    Row row;
    SF_ASSIGN(row.time_ms, integer("time_ms", field(kTimeMs), 0));
    if (row.time_ms >= kTimeEnd) {
      return rows_->bad_field("time_ms", "a time before the year 10000", field(kTimeMs));
    }
    if (row.time_ms < newest_ms_) {
      return rows_->bad_field(
          "time_ms", fmt::format("rows in time order, so at least {}", newest_ms_), field(kTimeMs));
    }
    SF_ASSIGN(row.user_id, name("user_id", field(kUserId), true));
    SF_ASSIGN(row.video_id, name("video_id", field(kVideoId), true));
    SF_ASSIGN(row.author_id, name("author_id", field(kAuthorId), false));
    SF_ASSIGN(row.tag, name("tag", field(kTag), false));
    SF_ASSIGN(row.tab, name("tab", field(kTab), false));
    SF_ASSIGN(row.is_click, flag("is_click", field(kIsClick)));
    SF_ASSIGN(row.long_view, flag("long_view", field(kLongView)));
    SF_ASSIGN(row.is_like, flag("is_like", field(kIsLike)));
    SF_ASSIGN(row.is_hate, flag("is_hate", field(kIsHate)));
    SF_ASSIGN(row.play_time_ms, integer("play_time_ms", field(kPlayTimeMs), 0));
    if (!field(kDurationMs).empty()) {
      SF_ASSIGN(row.duration_ms, integer("duration_ms", field(kDurationMs), 0));
    }
    row.upload_dt = field(kUploadDt);
    newest_ms_ = row.time_ms;
    ++row_;
    return hand_out(row);
  }

  base::Result<void> hand_out(const Row& row) {
    if (shown_before_.insert(std::string(row.video_id)).second) SF_TRY(push_item(row));
    Impression shown;
    shown.impression_id = fmt::format("{}:{}", file_, row_);
    shown.user_id = row.user_id;
    shown.time_ms = row.time_ms;
    shown.items.emplace_back().item_id = row.video_id;
    if (!row.tab.empty()) shown.surface.emplace(row.tab);
    const std::string impression_id = shown.impression_id;
    order_.push(std::move(shown));
    const base::UnixMs watched_ms = row.time_ms + std::min(row.play_time_ms, kPlayMaxMs);
    if (row.is_click) push_action(row, impression_id, "click", row.time_ms + kClickDelayMs);
    if (row.long_view) push_action(row, impression_id, "long_view", watched_ms);
    if (row.is_like) push_action(row, impression_id, "like", watched_ms);
    if (row.is_hate) push_action(row, impression_id, "hide", watched_ms);
    return {};
  }

  base::Result<void> push_item(const Row& row) {
    ItemUpdate item;
    item.item_id = row.video_id;
    item.time_ms = row.time_ms;
    if (!row.upload_dt.empty()) {
      item.published_at_ms = parse_iso_date(row.upload_dt);
      if (!item.published_at_ms)
        return rows_->bad_field("upload_dt", "a date (YYYY-MM-DD)", row.upload_dt);
    }
    if (!row.author_id.empty()) item.author_id.emplace(row.author_id);
    if (row.duration_ms) {
      item.numeric.emplace_back("duration_ms", static_cast<double>(*row.duration_ms));
    }
    append_tags(row.tag, ",", item.tags);
    order_.push(std::move(item));
    return {};
  }

  void push_action(const Row& row, const std::string& impression_id, std::string_view task,
                   base::UnixMs time_ms) {
    Action action;
    action.user_id = row.user_id;
    action.item_id = row.video_id;
    action.time_ms = time_ms;
    action.type = task;
    action.impression_id = impression_id;
    action.event_id = fmt::format("{}:{}", impression_id, task);
    order_.push(std::move(action));
  }

  std::unique_ptr<RowSource> rows_;
  const std::string file_;  // in ids
  std::unordered_set<std::string> shown_before_;
  ReplayOrder order_;
  base::UnixMs newest_ms_ = 0;
  std::uint64_t row_ = 0;
  bool ended_ = false;
};

}  // namespace

base::Result<std::unique_ptr<ReplayReader>> open_kuairand(ReplayInput input) {
  std::vector<RowColumn> columns;
  for (const char* name : kColumnNames) columns.push_back({name, true});
  SF_ASSIGN(auto rows, open_csv(std::move(input), ',', true, std::move(columns)));
  return std::make_unique<KuairandReader>(std::move(rows));
}

}  // namespace sirenfeed::ingest
