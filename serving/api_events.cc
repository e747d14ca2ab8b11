// POST /v1/events: each event is accepted once it is durable in the log, or refused with a reason.
#include "base/mutex.h"
#include "ingest/event_json.h"
#include "ingest/event_sink.h"
#include "serving/api_parts.h"
#include "serving/event_split.h"

namespace sirenfeed::serving {

namespace json = boost::json;
using base::ErrorCode;

namespace {

/// One call: filled by the handler and by the log's threads, answered when nothing is under way.
class EventsCall {
 public:
  EventsCall(std::shared_ptr<ApiShared> shared, std::shared_ptr<Exchange> exchange,
             std::size_t count)
      : shared_(std::move(shared)), exchange_(std::move(exchange)), results_(count) {}

  void refuse(std::size_t index, std::string_view reason, std::string_view detail);
  void delivered(std::size_t index, ingest::TopicPartition target,
                 const base::Result<ingest::Offset>& offset);
  void under_way() SF_EXCLUDES(mutex_) {
    base::MutexLock lock(mutex_);
    ++under_way_;
  }
  /// The log takes no more: nothing from `index` on was read.
  void stop_at(std::size_t index, int status, std::string detail) SF_EXCLUDES(mutex_) {
    base::MutexLock lock(mutex_);
    stopped_at_ = index;
    stopped_status_ = status;
    stopped_detail_ = std::move(detail);
  }
  /// One of those under way, or the handler itself, has ended.
  void end_one() SF_EXCLUDES(mutex_);
  /// The answer as far as it is known.
  [[nodiscard]] HttpResponse answer() SF_EXCLUDES(mutex_);

 private:
  json::object body() SF_REQUIRES(mutex_);

  const std::shared_ptr<ApiShared> shared_;
  const std::shared_ptr<Exchange> exchange_;
  base::Mutex mutex_;
  std::vector<json::object> results_ SF_GUARDED_BY(mutex_);
  std::size_t under_way_ SF_GUARDED_BY(mutex_) = 1;  // the handler
  std::size_t accepted_ SF_GUARDED_BY(mutex_) = 0;
  std::size_t refused_ SF_GUARDED_BY(mutex_) = 0;
  bool all_too_large_ SF_GUARDED_BY(mutex_) = true;
  bool log_failed_ SF_GUARDED_BY(mutex_) = false;
  std::string first_detail_ SF_GUARDED_BY(mutex_);
  std::optional<std::size_t> stopped_at_ SF_GUARDED_BY(mutex_);
  int stopped_status_ SF_GUARDED_BY(mutex_) = 429;
  std::string stopped_detail_ SF_GUARDED_BY(mutex_);
};

void EventsCall::refuse(std::size_t index, std::string_view reason, std::string_view detail) {
  shared_->parts.probe.events_refused.add();
  base::MutexLock lock(mutex_);
  ++refused_;
  if (reason != "too_large") all_too_large_ = false;
  if (first_detail_.empty()) first_detail_ = detail;
  results_[index] = {
      {"index", index}, {"status", "refused"}, {"reason", reason}, {"detail", detail}};
}

void EventsCall::delivered(std::size_t index, ingest::TopicPartition target,
                           const base::Result<ingest::Offset>& offset) {
  const auto in_flight = static_cast<double>(shared_->events_in_flight.fetch_sub(1) - 1);
  shared_->parts.probe.events_in_flight.set(in_flight);
  if (offset) {
    shared_->parts.probe.events_accepted.add();
    base::MutexLock lock(mutex_);
    ++accepted_;
    results_[index] = {{"index", index},
                       {"status", "accepted"},
                       {"topic", ingest::topic_name(target.topic)},
                       {"partition", target.partition},
                       {"offset", *offset}};
  } else if (offset.error().code == ErrorCode::kTooLarge) {
    refuse(index, "too_large", offset.error().message);
  } else {
    base::MutexLock lock(mutex_);
    log_failed_ = true;
    results_[index] = {{"index", index}, {"status", "failed"}, {"detail", offset.error().message}};
  }
}

void EventsCall::end_one() {
  {
    base::MutexLock lock(mutex_);
    if (--under_way_ > 0) return;
  }
  exchange_->respond(answer());
}

json::object EventsCall::body() {
  json::array results;
  const std::size_t reached = stopped_at_.value_or(results_.size());
  for (std::size_t i = 0; i < reached; ++i) {
    if (!results_[i].empty()) {
      results.push_back(results_[i]);
    } else {
      results.push_back({{"index", i}, {"status", "unconfirmed"}});
    }
  }
  return {{"accepted", accepted_}, {"refused", refused_}, {"results", std::move(results)}};
}

HttpResponse EventsCall::answer() {
  base::MutexLock lock(mutex_);
  json::object out = body();
  const auto as_problem = [&](int status, std::string_view field, std::string_view detail) {
    HttpResponse response = problem(status, field, detail);
    json::object merged = json::parse(response.body).as_object();
    for (auto& [name, value] : out) merged[name] = std::move(value);
    response.body = json::serialize(merged);
    return response;
  };
  if (stopped_at_) {
    out["index"] = *stopped_at_;
    return as_problem(stopped_status_, "", stopped_detail_);
  }
  if (log_failed_) return as_problem(503, "", "the log did not take every event");
  if (accepted_ + refused_ < results_.size()) {
    return as_problem(503, "",
                      "the log did not confirm every event in time; send the unconfirmed again "
                      "with the same impression_id and event_id");
  }
  if (accepted_ == 0) {
    const std::size_t colon = first_detail_.find(':');
    const std::string field = colon < first_detail_.find(' ') ? first_detail_.substr(0, colon) : "";
    return as_problem(all_too_large_ ? 413 : 400, field.empty() ? "body" : field, first_detail_);
  }
  return json_answer(out);
}

/// Appends one parsed event; false when the log takes no more for now.
bool append_event(const std::shared_ptr<ApiShared>& shared, const std::shared_ptr<EventsCall>& call,
                  std::size_t index, const ingest::EventBody& event) {
  const ingest::TopicPartition target = shared->target_of(event);
  call->under_way();
  shared->events_in_flight.fetch_add(1);
  auto on_delivered = [call, index, target](const base::Result<ingest::Offset>& offset) {
    call->delivered(index, target, offset);
    call->end_one();
  };
  const auto appended =
      shared->parts.events->append(target, ingest::event_key(event), ingest::event_json(event),
                                   base::WallClock().now_ms(), on_delivered);
  if (appended) return true;
  if (appended.error().code == ErrorCode::kTooLarge) {
    on_delivered(base::fail(appended.error()));
    return true;
  }
  shared->events_in_flight.fetch_sub(1);
  const bool behind = appended.error().code == ErrorCode::kUnavailable;
  call->stop_at(index, behind ? 429 : 503, appended.error().message);
  call->end_one();
  return false;
}

/// Why no event may be taken now; empty: they may.
std::string log_is_behind(const ApiShared& shared) {
  if (shared.events_in_flight.load() >= shared.config.events_in_flight_max) {
    return "events_in_flight_max is reached: the log is behind";
  }
  if (shared.parts.lag_events && shared.parts.lag_events() > shared.config.lag_events_max) {
    return "lag_events_max is reached: the state is behind the log";
  }
  return {};
}

void take_events(const std::shared_ptr<ApiShared>& shared, const std::shared_ptr<EventsCall>& call,
                 const std::vector<std::string_view>& events) {
  // Parsers reuse their buffers and belong to one thread.
  ingest::EventParser parser(shared->config.parser, *shared->parts.clock);
  for (std::size_t i = 0; i < events.size(); ++i) {
    // The lag is dear to ask for and changes slowly.
    if (i == 0 || shared->events_in_flight.load() >= shared->config.events_in_flight_max) {
      if (std::string behind = log_is_behind(*shared); !behind.empty()) {
        return call->stop_at(i, 429, std::move(behind));
      }
    }
    const auto parsed = parser.parse_tagged_event(events[i], shared->now_ms());
    if (!parsed) {
      call->refuse(i, ingest::reject_reason_name(parsed.error().reason), parsed.error().detail);
    } else if (!append_event(shared, call, i, parsed->body)) {
      return;
    }
  }
}

void post_events(const std::shared_ptr<ApiShared>& shared,
                 const std::shared_ptr<Exchange>& exchange) {
  const HttpRequest& request = exchange->request();
  const auto events = split_events(request.body, request.content_type);
  if (!events) return exchange->respond(problem(events.error()));
  if (events->size() > shared->config.events_per_request_max) {
    return exchange->respond(
        problem(413, "body",
                fmt::format("{} events are more than events_per_request_max ({})", events->size(),
                            shared->config.events_per_request_max)));
  }
  const auto call = std::make_shared<EventsCall>(shared, exchange, events->size());
  exchange->respond_later(shared->config.events_wait_max, [call] { return call->answer(); });
  take_events(shared, call, *events);
  call->end_one();
}

}  // namespace

void add_event_routes(const std::shared_ptr<ApiShared>& shared, std::vector<Route>& routes) {
  if (shared->parts.events == nullptr || shared->parts.clock == nullptr) return;
  routes.push_back(
      {"POST", "/v1/events",
       [shared](const std::shared_ptr<Exchange>& exchange) { post_events(shared, exchange); },
       Scope::kWrite});
}

}  // namespace sirenfeed::serving
