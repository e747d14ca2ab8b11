// Format `events`: one event a line, passed on as it stands.
#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "ingest/event_json.h"
#include "ingest/event_parser.h"
#include "ingest/replay_formats.h"
#include "ingest/replay_order.h"

namespace sirenfeed::ingest {
namespace {

using base::ErrorCode;

ParserConfig without_clock(ParserConfig config) {
  config.check_future = false;  // a file is of the past, whatever the clock says
  return config;
}

class EventsReader final : public ReplayReader {
 public:
  EventsReader(ReplayInput input, const ReplayOptions& options)
      : lines_(std::move(input), options.line_bytes_max),
        order_required_(options.order_required),
        parser_(without_clock(options.parser), clock_) {}

  base::Result<std::optional<ReplayRecord>> next() override {
    while (true) {
      auto record = order_.pop_before(ended_ ? std::nullopt : std::optional(newest_ms_));
      if (record || ended_) return record;
      auto read = read_line();
      if (read) continue;
      ended_ = true;
      order_.clear();
      return base::fail(std::move(read).error());
    }
  }
  std::uint64_t bytes_read() const override { return lines_.input().bytes_read(); }
  std::uint64_t bytes_total() const override { return lines_.input().bytes_total(); }

 private:
  template <class... Args>
  auto fail(ErrorCode code, fmt::format_string<Args...> format, Args&&... args) {
    return base::fail(code, "{}:{}: {}", lines_.input().name(), lines_.number(),
                      fmt::format(format, std::forward<Args>(args)...));
  }

  base::Result<void> read_line() {
    SF_ASSIGN(const auto line, lines_.next());
    if (!line) {
      ended_ = true;
      return {};
    }
    std::string_view text = *line;
    if (lines_.number() == 1 && text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
    if (text.find_first_not_of(" \t") == std::string_view::npos) return {};
    // What has no time of its own (a takedown) happens where it stands.
    auto event = parser_.parse_tagged_event(text, newest_ms_);
    if (!event) return fail(ErrorCode::kDecode, "{}", event.error().detail);
    const base::UnixMs time_ms = event_time_ms(event->body);
    if (time_ms == 0) return fail(ErrorCode::kDecode, "timestamp: missing");
    if (time_ms < newest_ms_ && order_required_) {
      return fail(ErrorCode::kDecode,
                  "timestamp: expected lines in time order, got {} after one of {}", time_ms,
                  newest_ms_);
    }
    newest_ms_ = std::max(newest_ms_, time_ms);
    std::string value(text);
    if (text.find("\"timestamp\"") == std::string_view::npos) {
      // Wherever the record is read, its time is this one and not its log's.
      value = event_json(event->body, JsonForm::kTagged);
    }
    order_.push({event_topic(event->body), event_key(event->body), std::move(value), time_ms});
    return {};
  }

  ReplayLines lines_;
  const bool order_required_;
  base::EventClock clock_;
  EventParser parser_;
  ReplayOrder order_;
  base::UnixMs newest_ms_ = 0;
  bool ended_ = false;
};

}  // namespace

base::Result<std::unique_ptr<ReplayReader>> open_events(ReplayInput input,
                                                        const ReplayOptions& options) {
  return std::make_unique<EventsReader>(std::move(input), options);
}

}  // namespace sirenfeed::ingest
