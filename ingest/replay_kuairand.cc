// Format `kuairand`: the CSV of KuaiRand-Pure, by the convention in replay_reader.h.
#define CSV_IO_NO_THREAD
#include <libfccp/csv.h>
#include <simdjson.h>

#include <algorithm>
#include <charconv>
#include <exception>
#include <unordered_set>
#include <utility>

#include "ingest/event_fields.h"
#include "ingest/event_json.h"
#include "ingest/event_time.h"
#include "ingest/replay_formats.h"
#include "ingest/replay_order.h"

namespace sirenfeed::ingest {
namespace {

using base::ErrorCode;

constexpr base::UnixMs kClickDelayMs = 1'000;
constexpr base::UnixMs kPlayMaxMs = 600'000;

/// Carries an error of ours through the CSV library, whose way is exceptions.
class SourceFailure final : public std::exception {
 public:
  explicit SourceFailure(base::Error error) : error_(std::move(error)) {}
  [[nodiscard]] const base::Error& error() const { return error_; }

 private:
  base::Error error_;
};

class CsvSource final : public io::ByteSourceBase {
 public:
  explicit CsvSource(std::shared_ptr<ReplayInput> input) : input_(std::move(input)) {}
  int read(char* out, int size) override {
    auto got = input_->read(out, static_cast<std::size_t>(size));
    if (!got) throw SourceFailure(std::move(got).error());
    return static_cast<int>(*got);
  }

 private:
  std::shared_ptr<ReplayInput> input_;
};

struct Row {
  base::UnixMs time_ms = 0;
  std::string_view user_id, video_id, author_id, tag, tab, upload_dt;
  bool is_click = false, long_view = false, is_like = false, is_hate = false;
  std::int64_t play_time_ms = 0;
  std::optional<std::int64_t> duration_ms;
};

std::string without_suffix(std::string name) {
  for (const std::string_view suffix : {".gz", ".csv"}) {
    if (name.ends_with(suffix)) name.resize(name.size() - suffix.size());
  }
  return name;
}

class KuairandReader final : public ReplayReader {
 public:
  explicit KuairandReader(const std::shared_ptr<ReplayInput>& input)
      : input_(input),
        file_(without_suffix(input->name())),
        csv_(input->name(), std::unique_ptr<io::ByteSourceBase>(new CsvSource(input))) {}

  base::Result<void> read_header() {
    return guarded([&]() -> base::Result<void> {
      csv_.read_header(io::ignore_extra_column, "time_ms", "user_id", "video_id", "author_id",
                       "tag", "tab", "is_click", "long_view", "is_like", "is_hate", "play_time_ms",
                       "duration_ms", "upload_dt");
      return {};
    });
  }

  base::Result<std::optional<ReplayRecord>> next() override {
    while (true) {
      auto record = order_.pop_before(ended_ ? std::nullopt : std::optional(newest_ms_));
      if (record || ended_) return record;
      auto read = guarded([this] { return read_row(); });
      if (read) continue;
      ended_ = true;
      order_.clear();
      return base::fail(std::move(read).error());
    }
  }
  std::uint64_t bytes_read() const override { return input_->bytes_read(); }
  std::uint64_t bytes_total() const override { return input_->bytes_total(); }

 private:
  /// What the CSV library throws becomes an Error here and goes no further.
  template <class Call>
  base::Result<void> guarded(Call call) {
    try {
      return call();
    } catch (const SourceFailure& failure) {
      return base::fail(failure.error());
    } catch (const io::error::base& error) {
      return base::fail(ErrorCode::kDecode, "{}:{}: {}", input_->name(), csv_.get_file_line(),
                        error.what());
    }
  }

  [[nodiscard]] tl::unexpected<base::Error> fail(std::string_view column, std::string_view expected,
                                                 std::string_view got) {
    const bool readable = simdjson::validate_utf8(got.data(), got.size());
    return base::fail(ErrorCode::kDecode, "{}:{}: {}: expected {}, got {}", input_->name(),
                      csv_.get_file_line(), column, expected,
                      readable ? "'" + excerpt(got) + "'" : "bytes that are not UTF-8");
  }

  base::Result<std::int64_t> integer(std::string_view column, std::string_view text,
                                     std::int64_t least) {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) {
      return fail(column, "an integer", text);
    }
    if (value < least) return fail(column, fmt::format("at least {}", least), text);
    return value;
  }
  base::Result<bool> flag(std::string_view column, std::string_view text) {
    if (text != "0" && text != "1") return fail(column, "0 or 1", text);
    return text == "1";
  }
  base::Result<std::string_view> name(std::string_view column, std::string_view text, bool needed) {
    if (!simdjson::validate_utf8(text.data(), text.size())) return fail(column, "UTF-8", text);
    if (needed && text.empty()) return fail(column, "an id", text);
    return text;
  }

  base::Result<void> read_row() {
    char *time, *user, *video, *author, *tag, *tab, *click, *view, *like, *hate, *play, *duration,
        *upload;
    if (!csv_.read_row(time, user, video, author, tag, tab, click, view, like, hate, play, duration,
                       upload)) {
      ended_ = true;
      return {};
    }
    Row row;
    SF_ASSIGN(row.time_ms, integer("time_ms", time, 0));
    if (row.time_ms < newest_ms_) {
      return fail("time_ms", fmt::format("rows in time order, so at least {}", newest_ms_), time);
    }
    SF_ASSIGN(row.user_id, name("user_id", user, true));
    SF_ASSIGN(row.video_id, name("video_id", video, true));
    SF_ASSIGN(row.author_id, name("author_id", author, false));
    SF_ASSIGN(row.tag, name("tag", tag, false));
    SF_ASSIGN(row.tab, name("tab", tab, false));
    SF_ASSIGN(row.is_click, flag("is_click", click));
    SF_ASSIGN(row.long_view, flag("long_view", view));
    SF_ASSIGN(row.is_like, flag("is_like", like));
    SF_ASSIGN(row.is_hate, flag("is_hate", hate));
    SF_ASSIGN(row.play_time_ms, integer("play_time_ms", play, 0));
    if (*duration != '\0') {
      SF_ASSIGN(row.duration_ms, integer("duration_ms", duration, 0));
    }
    row.upload_dt = upload;
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
    push(std::move(shown));
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
      if (!item.published_at_ms) return fail("upload_dt", "a date (YYYY-MM-DD)", row.upload_dt);
    }
    if (!row.author_id.empty()) item.author_id.emplace(row.author_id);
    if (row.duration_ms) {
      item.numeric.emplace_back("duration_ms", static_cast<double>(*row.duration_ms));
    }
    for (std::string_view rest = row.tag; !rest.empty();) {
      const std::size_t comma = rest.find(',');
      const std::string tag(rest.substr(0, comma));
      const bool known = std::find(item.tags.begin(), item.tags.end(), tag) != item.tags.end();
      if (!tag.empty() && !known) item.tags.push_back(tag);
      rest.remove_prefix(comma == std::string_view::npos ? rest.size() : comma + 1);
    }
    push(std::move(item));
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
    push(std::move(action));
  }

  void push(EventBody body) {
    ReplayRecord record;
    record.topic = event_topic(body);
    record.key = event_key(body);
    record.time_ms = event_time_ms(body);
    record.value = event_json(body);
    order_.push(std::move(record));
  }

  std::shared_ptr<ReplayInput> input_;
  const std::string file_;  // in ids
  std::unordered_set<std::string> shown_before_;
  ReplayOrder order_;
  base::UnixMs newest_ms_ = 0;
  std::uint64_t row_ = 0;
  bool ended_ = false;
  io::CSVReader<13, io::trim_chars<>, io::double_quote_escape<',', '"'>> csv_;
};

}  // namespace

base::Result<std::unique_ptr<ReplayReader>> open_kuairand(ReplayInput input) {
  try {  // the library reads the first block as it is made
    auto reader = std::make_unique<KuairandReader>(std::make_shared<ReplayInput>(std::move(input)));
    SF_TRY(reader->read_header());
    return reader;
  } catch (const SourceFailure& failure) {
    return base::fail(failure.error());
  }
}

}  // namespace sirenfeed::ingest
