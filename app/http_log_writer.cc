#include "app/http_log_writer.h"

#include <algorithm>
#include <boost/json.hpp>
#include <thread>
#include <utility>
#include <vector>

#include "ingest/event_json.h"

namespace sirenfeed::app {

namespace json = boost::json;
using base::ErrorCode;
using base::fail;
using std::chrono::milliseconds;

namespace {

/// The record as an event of the API: with its topic in front.
base::Result<std::string> event_line(ingest::TopicPartition target,
                                     const std::optional<std::string>& key,
                                     const std::optional<std::string>& value) {
  if (value) {
    const std::size_t brace = value->find('{');
    if (brace == std::string::npos) {
      return fail(ErrorCode::kInvalidArgument, "expected a JSON object, got {} bytes without",
                  value->size());
    }
    std::string line = fmt::format(R"({{"topic":"{}",)", topic_name(target.topic));
    line.append(*value, brace + 1);
    line += '\n';
    return line;
  }
  const bool item = target.topic == ingest::Topic::kItems;
  std::string line = fmt::format(R"({{"topic":"{}","{}":)", topic_name(target.topic),
                                 item ? "item_id" : "user_id");
  ingest::append_json_string(key.value_or(""), line);
  line += item ? ",\"deleted\":true}\n" : ",\"erase\":true}\n";
  return line;
}

/// What the server said about one event; nullopt: it is to be sent again.
std::optional<base::Result<ingest::Offset>> verdict(const json::object& result) {
  const json::value* status = result.if_contains("status");
  const std::string_view text =
      status != nullptr && status->is_string() ? std::string_view(status->get_string()) : "";
  if (text == "accepted" || text == "duplicate") {
    const json::value* offset = result.if_contains("offset");
    return offset != nullptr && offset->is_int64() ? offset->get_int64() : ingest::Offset{0};
  }
  if (text != "refused") return std::nullopt;
  const auto member = [&](const char* name) {
    const json::value* value = result.if_contains(name);
    return value != nullptr && value->is_string() ? std::string(value->get_string()) : "";
  };
  const std::string reason = member("reason");
  return fail(reason == "too_large" ? ErrorCode::kTooLarge : ErrorCode::kInvalidArgument,
              "refused as {}: {}", reason, member("detail"));
}

}  // namespace

HttpLogWriter::HttpLogWriter(HttpLogWriterConfig config, Post post)
    : config_(config), post_(std::move(post)) {}

bool HttpLogWriter::batch_is_full() const {
  return queue_.size() >= config_.batch_events_max || queue_bytes_ >= config_.batch_bytes_max;
}

base::Result<void> HttpLogWriter::append(ingest::TopicPartition target,
                                         std::optional<std::string> key,
                                         std::optional<std::string> value, base::UnixMs /*time_ms*/,
                                         OnDelivered on_delivered) {
  SF_ASSIGN(std::string line, event_line(target, key, value));
  if (batch_is_full()) {  // an earlier send has failed
    SF_ASSIGN(const bool sent, send_batch());
    if (!sent) {
      wait_before_retry(Steady::now() + config_.retry_wait_max);
      return fail(ErrorCode::kUnavailable, "the server takes no more events: {}", last_trouble_);
    }
  }
  if (queue_.empty()) oldest_at_ = Steady::now();
  queue_bytes_ += line.size();
  queue_.push_back({std::move(line), std::move(on_delivered)});
  if (batch_is_full() || Steady::now() - oldest_at_ >= config_.linger) SF_TRY(send_batch());
  return {};
}

base::Result<void> HttpLogWriter::flush(milliseconds timeout) {
  const auto deadline = Steady::now() + timeout;
  while (!queue_.empty()) {
    SF_ASSIGN(const bool sent, send_batch());
    if (sent) continue;
    if (Steady::now() >= deadline) {
      return fail(ErrorCode::kUnavailable, "{} events are not accepted yet: {}", queue_.size(),
                  last_trouble_);
    }
    wait_before_retry(deadline);
  }
  return {};
}

void HttpLogWriter::wait_before_retry(Steady::time_point deadline) {
  retry_wait_ = std::clamp(2 * retry_wait_, config_.retry_wait_min, config_.retry_wait_max);
  std::this_thread::sleep_until(std::min(deadline, Steady::now() + retry_wait_));
}

base::Result<bool> HttpLogWriter::send_batch() {
  std::string body;
  std::size_t count = 0;
  while (count < queue_.size() && count < config_.batch_events_max &&
         (count == 0 || body.size() + queue_[count].line.size() <= config_.batch_bytes_max)) {
    body += queue_[count++].line;
  }
  const auto response = post_(std::move(body));
  if (!response) {
    if (response.error().code != ErrorCode::kUnavailable) return fail(response.error());
    last_trouble_ = response.error().message;
    return false;
  }
  SF_ASSIGN(const std::size_t settled, settle(*response, count));
  oldest_at_ = Steady::now();
  if (settled > 0) retry_wait_ = milliseconds(0);
  return settled > 0;
}

/// Reports what the server decided and keeps the rest, in order. Returns how many were decided.
base::Result<std::size_t> HttpLogWriter::settle(const HttpResponse& response, std::size_t sent) {
  boost::system::error_code error;
  const json::value root = json::parse(response.body, error);
  const json::object* body = error ? nullptr : root.if_object();
  const json::value* listed = body == nullptr ? nullptr : body->if_contains("results");
  const bool retry = response.status == 429 || response.status == 503;
  if (listed == nullptr && !retry) {
    return fail(ErrorCode::kInvalidArgument, "POST /v1/events answered {}: {}", response.status,
                response.body.substr(0, 500));
  }
  last_trouble_ = fmt::format("status {}", response.status);
  std::vector<std::optional<base::Result<ingest::Offset>>> verdicts(sent);
  const json::array* results = listed == nullptr ? nullptr : listed->if_array();
  for (const json::value& entry : results == nullptr ? json::array() : *results) {
    const json::object* result = entry.if_object();
    const json::value* index = result == nullptr ? nullptr : result->if_contains("index");
    const auto at = index == nullptr ? sent : index->to_number<std::size_t>(error);
    if (at < sent) verdicts[at] = verdict(*result);
  }
  std::deque<Event> kept;
  std::size_t settled = 0;
  for (auto& decided : verdicts) {
    Event event = std::move(queue_.front());
    queue_.pop_front();
    if (!decided) {
      kept.push_back(std::move(event));
      continue;
    }
    ++settled;
    queue_bytes_ -= event.line.size();
    if (event.on_delivered) event.on_delivered(std::move(*decided));
  }
  queue_.insert(queue_.begin(), std::make_move_iterator(kept.begin()),
                std::make_move_iterator(kept.end()));
  return settled;
}

}  // namespace sirenfeed::app
