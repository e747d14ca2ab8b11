// GET, PUT and DELETE /v1/items/{item}.
#include <algorithm>

#include "features/feature_reader.h"
#include "ingest/event_json.h"
#include "ingest/event_sink.h"
#include "serving/api_parts.h"
#include "serving/json_body.h"

namespace sirenfeed::serving {

namespace json = boost::json;

namespace {

HttpResponse get_item(const ApiShared& shared, const HttpRequest& request) {
  const features::CatalogItemPtr item =
      shared.parts.features->item(std::string_view(request.path_parameter("item")));
  if (!item) return problem(404, "item", "this item was never heard of");
  if (item->taken_down()) {
    return problem(404, "item",
                   fmt::format("this item was taken down at {}", *item->taken_down_ms));
  }
  json::object body{{"item_id", item->id}, {"known", item->known}, {"hidden", item->hidden}};
  if (item->known) body["timestamp"] = item->updated_ms;
  if (item->published_ms) body["published_at"] = *item->published_ms;
  if (item->expires_ms) body["expires_at"] = *item->expires_ms;
  if (item->first_shown_ms) body["first_shown_at"] = *item->first_shown_ms;
  if (item->author_id) body["author_id"] = *item->author_id;
  body["tags"] = json::value_from(item->tags);
  json::object numeric;
  for (const auto& [name, value] : item->numeric) numeric[name] = value;
  body["numeric"] = std::move(numeric);
  if (item->title) body["title"] = *item->title;
  if (item->url) body["url"] = *item->url;
  if (item->image_url) body["image_url"] = *item->image_url;
  if (item->language) body["language"] = *item->language;
  return json_answer(body);
}

/// When an order about an item takes place: now, or later where the state knows a later event of it
/// (its publisher's clock is ahead, or a clock of events stands still). What is answered as done
/// must count.
base::UnixMs order_time(const ApiShared& shared, std::string_view item_id) {
  const base::UnixMs now = shared.now_ms();
  if (shared.parts.features == nullptr) return now;
  const features::CatalogItemPtr item = shared.parts.features->item(item_id);
  return item ? std::max(now, item->updated_ms) : now;
}

/// An item comes back after its takedown, not at the same time.
base::UnixMs put_time(const ApiShared& shared, std::string_view item_id) {
  const base::UnixMs time = order_time(shared, item_id);
  if (shared.parts.features == nullptr) return time;
  const features::CatalogItemPtr item = shared.parts.features->item(item_id);
  return item && item->taken_down_ms ? std::max(time, *item->taken_down_ms + 1) : time;
}

/// The body is the item's event; id and time may be left out.
void put_item(const std::shared_ptr<ApiShared>& shared, const std::shared_ptr<Exchange>& exchange) {
  const HttpRequest& request = exchange->request();
  const std::string& id = request.path_parameter("item");
  auto body = json_object(request.body);
  if (!body) return exchange->respond(problem(body.error()));
  if (const json::value* given = body->if_contains("item_id")) {
    const auto same = json_id("item_id", *given);
    if (!same) return exchange->respond(problem(same.error()));
    if (*same != id) {
      return exchange->respond(problem(400, "item_id", "item_id: is not the id of the path"));
    }
  }
  (*body)["item_id"] = id;
  if (!body->contains("timestamp")) (*body)["timestamp"] = put_time(*shared, id);
  ingest::EventParser parser(shared->config.parser, *shared->parts.clock);
  const auto parsed =
      parser.parse_event(ingest::Topic::kItems, json::serialize(*body), shared->now_ms());
  if (!parsed) {
    const std::string& detail = parsed.error().detail;
    const bool large = parsed.error().reason == ingest::RejectReason::kTooLarge;
    return exchange->respond(
        problem(large ? 413 : 400, detail.substr(0, detail.find(':')), detail));
  }
  const auto* item = std::get_if<ingest::ItemUpdate>(&parsed->body);
  if (item != nullptr && item->deleted) {
    return exchange->respond(
        problem(400, "deleted", "deleted: takes no part in PUT; use DELETE /v1/items/{item}"));
  }
  append_and_answer(shared, exchange, parsed->body, "stored");
}

void delete_item(const std::shared_ptr<ApiShared>& shared,
                 const std::shared_ptr<Exchange>& exchange) {
  ingest::ItemUpdate takedown;
  takedown.item_id = exchange->request().path_parameter("item");
  if (takedown.item_id.size() > shared->config.parser.id_bytes_max) {
    return exchange->respond(problem(400, "item", "item: is longer than id_bytes_max"));
  }
  takedown.time_ms = order_time(*shared, takedown.item_id);
  takedown.deleted = true;
  append_and_answer(shared, exchange, takedown, "taken_down");
}

}  // namespace

void add_item_routes(const std::shared_ptr<ApiShared>& shared, std::vector<Route>& routes) {
  if (shared->parts.features != nullptr) {
    routes.push_back({"GET", "/v1/items/{item}", answer_with([shared](const HttpRequest& request) {
                        return get_item(*shared, request);
                      }),
                      Scope::kRead});
  }
  if (shared->parts.events == nullptr || shared->parts.clock == nullptr) return;
  routes.push_back(
      {"PUT", "/v1/items/{item}",
       [shared](const std::shared_ptr<Exchange>& exchange) { put_item(shared, exchange); },
       Scope::kWrite});
  routes.push_back(
      {"DELETE", "/v1/items/{item}",
       [shared](const std::shared_ptr<Exchange>& exchange) { delete_item(shared, exchange); },
       Scope::kAdmin});
}

}  // namespace sirenfeed::serving
