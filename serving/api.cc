#include "serving/api.h"

#include "ingest/event_json.h"
#include "serving/api_parts.h"
#include "serving/json_text.h"

namespace sirenfeed::serving {

namespace json = boost::json;

struct Api::Impl {
  std::shared_ptr<ApiShared> shared;
};

Api::Api(const ApiConfig& config, ApiParts parts)
    : impl_(std::make_unique<Impl>(Impl{std::make_shared<ApiShared>(config, std::move(parts))})) {}

Api::~Api() { stop(); }

void Api::stop() { impl_->shared->waiter.stop(); }

Router Api::router() {
  std::vector<Route> routes;
  add_health_routes(impl_->shared, routes);
  add_metric_routes(impl_->shared, routes);
  add_model_routes(impl_->shared, routes);
  add_feed_routes(impl_->shared, routes);
  add_event_routes(impl_->shared, routes);
  add_user_routes(impl_->shared, routes);
  add_item_routes(impl_->shared, routes);
  add_admin_routes(impl_->shared, routes);
  add_page_routes(impl_->shared, routes);
  return Router(std::move(routes));
}

base::UnixMs ApiShared::now_ms() const {
  const base::UnixMs now = parts.clock != nullptr ? parts.clock->now_ms() : 0;
  return now >= config.parser.timestamp_min_ms ? now : base::WallClock().now_ms();
}

ingest::TopicPartition ApiShared::target_of(const ingest::EventBody& event) const {
  const ingest::Topic topic = ingest::event_topic(event);
  const ingest::Partition count =
      topic == ingest::Topic::kItems ? parts.item_partitions : parts.partitions;
  return {topic, ingest::partition_of(ingest::event_key(event), count)};
}

HttpResponse json_answer(const json::value& body, int status) {
  return {
      .status = status, .content_type = "application/json", .body = json_text(body), .headers = {}};
}

namespace {

/// What is gone and what is not; before the answer of an erasure nothing of the user waits here.
void add_removal(const ApiShared& shared, const ingest::EventBody& event,
                 const ingest::TopicPartition& target, ingest::Offset offset, json::object& body) {
  json::object removed;
  if (shared.parts.removed) {
    for (const auto& [family, keys] :
         shared.parts.removed(target, offset).value_or(std::map<std::string, std::uint64_t>())) {
      if (keys > 0) removed[family] = keys;
    }
  }
  const auto* user = std::get_if<ingest::UserUpdate>(&event);
  if (user != nullptr && shared.parts.forget_requests) {
    const std::size_t queued = shared.parts.forget_requests(user->user_id);
    if (queued > 0) removed["queued_requests"] = queued;
  }
  body["removed"] = std::move(removed);
}

json::object receipt(std::string_view status, const ingest::TopicPartition& target,
                     ingest::Offset offset) {
  return {{"status", status},
          {"receipt",
           {{"topic", ingest::topic_name(target.topic)},
            {"partition", target.partition},
            {"offset", offset}}}};
}

}  // namespace

void append_and_answer(const std::shared_ptr<ApiShared>& shared,
                       const std::shared_ptr<Exchange>& exchange, const ingest::EventBody& event,
                       std::string_view done) {
  const ingest::TopicPartition target = shared->target_of(event);
  exchange->respond_later(shared->config.events_wait_max + shared->config.apply_wait_max, [] {
    return problem(503, "", "the log did not confirm in time; the order may still take effect");
  });
  const auto appended = shared->parts.events->append(
      target, ingest::event_key(event), ingest::event_json(event), base::WallClock().now_ms(),
      [shared, exchange, target, event,
       done = std::string(done)](base::Result<ingest::Offset> offset) {
        if (!offset) return exchange->respond(problem(offset.error()));
        const auto answer = [shared, exchange, target, event, done, at = *offset](bool applied) {
          json::object body = receipt(applied ? done : "accepted", target, at);
          if (done != "stored") {
            if (applied) add_removal(*shared, event, target, at, body);
            body["copies_left"] = json::value_from(shared->parts.copies_left);
          }
          exchange->respond(json_answer(body, applied ? 200 : 202));
        };
        shared->waiter.wait(target, *offset, answer);
      });
  if (!appended) exchange->respond(problem(appended.error()));
}

}  // namespace sirenfeed::serving
