// GET and DELETE /v1/users/{user}.
#include "features/feature_reader.h"
#include "ingest/event_json.h"
#include "serving/api_parts.h"

namespace sirenfeed::serving {

namespace json = boost::json;

namespace {

json::object entry_json(const features::FeatureReader& reader,
                        const features::SequenceView& entry) {
  json::object out;
  const features::CatalogItemPtr item = reader.item(entry.item);
  out["item_id"] = item ? json::value(item->id) : json::value(nullptr);
  out["time"] = entry.time_ms;
  out["exposed"] = entry.exposed;
  json::array actions;
  for (const features::SequenceAction& action : entry.actions) {
    json::object each{{"type", action.type}, {"time", action.time_ms}};
    if (action.value) each["value"] = *action.value;
    actions.push_back(std::move(each));
  }
  out["actions"] = std::move(actions);
  if (item) {
    if (item->title) out["title"] = *item->title;
    if (!item->tags.empty()) out["tags"] = json::value_from(item->tags);
    if (item->author_id) out["author_id"] = *item->author_id;
  }
  return out;
}

HttpResponse get_user(const ApiShared& shared, const HttpRequest& request) {
  const std::string& id = request.path_parameter("user");
  const features::FeatureReader& reader = *shared.parts.features;
  const auto user = reader.read_user(id, shared.now_ms() + 1);
  if (!user) return problem(user.error());
  if (!user->known) return problem(404, "user", "nothing is known of this user");
  const auto sequence = reader.read_sequence(id);
  if (!sequence) return problem(sequence.error());
  json::array entries;
  for (const features::SequenceView& entry : *sequence)
    entries.push_back(entry_json(reader, entry));
  json::object body{{"user", id}, {"time", user->time_ms}};
  if (user->segment) body["segment"] = *user->segment;
  body["blocked_authors"] = user->blocked_authors.size();
  body["blocked_tags"] = user->blocked_tags.size();
  body["history"] = std::move(entries);
  return json_answer(body);
}

void delete_user(const std::shared_ptr<ApiShared>& shared,
                 const std::shared_ptr<Exchange>& exchange) {
  ingest::UserUpdate erase;
  erase.user_id = exchange->request().path_parameter("user");
  if (erase.user_id.size() > shared->config.parser.id_bytes_max) {
    return exchange->respond(problem(400, "user", "user: is longer than id_bytes_max"));
  }
  erase.time_ms = shared->now_ms();
  erase.erase = true;
  append_and_answer(shared, exchange, erase, "erased");
}

}  // namespace

void add_user_routes(const std::shared_ptr<ApiShared>& shared, std::vector<Route>& routes) {
  if (shared->parts.features != nullptr) {
    routes.push_back({"GET", "/v1/users/{user}", answer_with([shared](const HttpRequest& request) {
                        return get_user(*shared, request);
                      }),
                      Scope::kRead});
  }
  if (shared->parts.events != nullptr) {
    routes.push_back(
        {"DELETE", "/v1/users/{user}",
         [shared](const std::shared_ptr<Exchange>& exchange) { delete_user(shared, exchange); },
         Scope::kAdmin});
  }
}

}  // namespace sirenfeed::serving
