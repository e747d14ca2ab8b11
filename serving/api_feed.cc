// GET /v1/feed/{user} and POST /v1/rank.
#include <charconv>
#include <set>

#include "serving/api_parts.h"
#include "serving/feed_service.h"
#include "serving/json_body.h"

namespace sirenfeed::serving {

namespace json = boost::json;
using base::ErrorCode;
using base::fail;

namespace {

base::Result<bool> parse_flag(const std::string& name, const std::string& value) {
  if (value == "true" || value == "1" || value.empty()) return true;
  if (value == "false" || value == "0") return false;
  return fail(ErrorCode::kInvalidArgument, "{}: expected true or false", name);
}

base::Result<std::size_t> parse_count(const std::string& value) {
  std::size_t count = 0;
  const auto [end, ec] = std::from_chars(value.data(), value.data() + value.size(), count);
  if (ec != std::errc() || end != value.data() + value.size()) {
    return fail(ErrorCode::kInvalidArgument, "count: expected a whole number");
  }
  return count;
}

/// Ids between commas; `\` before a comma or a `\` makes it part of an id. The value is decoded
/// first: many HTTP libraries send every comma as %2C.
std::vector<std::string> split_exclude(std::string_view text) {
  std::vector<std::string> ids(1);
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool escaped =
        text[i] == '\\' && i + 1 < text.size() && (text[i + 1] == ',' || text[i + 1] == '\\');
    if (text[i] == ',') {
      ids.emplace_back();
    } else {
      if (escaped) ++i;
      ids.back() += text[i];
    }
  }
  std::erase_if(ids, [](const std::string& id) { return id.empty(); });
  return ids;
}

base::Result<void> apply_parameter(const QueryParameter& parameter, FeedRequest& feed) {
  auto decoded = percent_decode(parameter.raw_value, true);
  if (!decoded) {
    return fail(ErrorCode::kInvalidArgument, "{}: {}", parameter.name, decoded.error().message);
  }
  if (parameter.name == "count") {
    SF_ASSIGN(feed.count, parse_count(*decoded));
  } else if (parameter.name == "surface") {
    feed.surface = *std::move(decoded);
  } else if (parameter.name == "explain") {
    SF_ASSIGN(feed.explain, parse_flag("explain", *decoded));
  } else if (parameter.name == "debug") {
    SF_ASSIGN(feed.debug, parse_flag("debug", *decoded));
  } else if (parameter.name == "exclude") {
    feed.exclude = split_exclude(*decoded);
  } else {
    return fail(ErrorCode::kInvalidArgument,
                "{}: is no parameter; expected count, surface, exclude, explain or debug",
                parameter.name);
  }
  return {};
}

json::object item_json(const FeedItem& item, bool explained) {
  json::object out{{"item_id", item.item_id}};
  out["score"] = static_cast<float>(item.score);  // as exact as what it is made of
  json::object probabilities;
  for (const auto& [task, probability] : item.probabilities) probabilities[task] = probability;
  out["probabilities"] = std::move(probabilities);
  out["source"] = item.source;
  out["explored"] = item.explored;
  out["propensity"] = static_cast<float>(item.propensity);
  if (!item.known) out["unknown"] = true;
  if (item.title) out["title"] = *item.title;
  if (item.url) out["url"] = *item.url;
  if (item.image_url) out["image_url"] = *item.image_url;
  if (item.author_id) out["author_id"] = *item.author_id;
  if (!item.tags.empty()) out["tags"] = json::value_from(item.tags);
  if (item.published_at_ms) out["published_at"] = *item.published_at_ms;
  if (explained) out["why"] = json::value_from(item.why);
  return out;
}

json::array removed_json(const std::vector<RemovedItem>& removed) {
  json::array out;
  for (const RemovedItem& item : removed) {
    out.push_back({{"item_id", item.item_id}, {"reason", item.reason}});
  }
  return out;
}

json::object debug_json(const FeedAnswer& answer) {
  const DebugReport& debug = *answer.debug;
  json::array sources;
  for (const SourceReport& source : debug.sources) {
    sources.push_back(
        {{"source", source.source}, {"given", source.given}, {"took_us", source.took_us}});
  }
  json::object stages;
  for (const auto& [stage, us] : debug.stages_us) stages[stage] = us;
  json::array kept;
  for (const FeedItem& item : answer.items) kept.push_back(json::string(item.item_id));
  return {{"candidates", debug.candidates},
          {"sources", std::move(sources)},
          {"stages_us", std::move(stages)},
          {"kept", std::move(kept)},
          {"removed", removed_json(answer.removed)}};
}

json::object answer_json(const FeedAnswer& answer, bool explained) {
  json::array items;
  for (const FeedItem& item : answer.items) items.push_back(item_json(item, explained));
  json::object out{{"request_id", answer.request_id},
                   {"user", answer.user_id},
                   {"time", answer.time_ms},
                   {"model_version", answer.model_version},
                   {"took_ms", static_cast<float>(answer.took_us) / 1000.0F},
                   {"history", answer.history_items}};
  if (answer.degraded) out["degraded"] = *answer.degraded;
  out["items"] = std::move(items);
  return out;
}

HttpResponse get_feed(const ApiShared& shared, const HttpRequest& request) {
  FeedRequest feed;
  feed.user_id = request.path_parameter("user");
  std::set<std::string_view> seen;
  for (const QueryParameter& parameter : request.query) {
    const auto applied =
        seen.insert(parameter.name).second
            ? apply_parameter(parameter, feed)
            : fail(ErrorCode::kInvalidArgument, "{}: is there twice", parameter.name);
    if (!applied) return problem(applied.error());
  }
  const auto answer = shared.parts.feeds->feed(feed);
  if (!answer) return problem(answer.error());
  json::object body = answer_json(*answer, feed.explain);
  if (feed.debug) body["debug"] = debug_json(*answer);
  return json_answer(body);
}

base::Result<RankRequest> parse_rank(const HttpRequest& request) {
  SF_ASSIGN(const json::object body, json_object(request.body));
  RankRequest rank;
  for (const auto& [name, value] : body) {
    if (name == "user") {
      SF_ASSIGN(rank.user_id, json_id("user", value));
    } else if (name == "surface") {
      if (value.is_null()) continue;
      SF_ASSIGN(rank.surface, json_id("surface", value));
    } else if (name == "explain") {
      if (!value.is_bool()) {
        return fail(ErrorCode::kInvalidArgument, "explain: expected true or false");
      }
      rank.explain = value.as_bool();
    } else if (name == "items") {
      SF_ASSIGN(rank.items, json_ids("items", value));
    } else {
      return fail(ErrorCode::kInvalidArgument,
                  "{}: is no field; expected user, items, surface or explain",
                  std::string_view(name.data(), name.size()));
    }
  }
  if (!body.contains("user")) return fail(ErrorCode::kInvalidArgument, "user: is missing");
  if (!body.contains("items")) return fail(ErrorCode::kInvalidArgument, "items: is missing");
  return rank;
}

HttpResponse post_rank(const ApiShared& shared, const HttpRequest& request) {
  const auto rank = parse_rank(request);
  if (!rank) return problem(rank.error());
  const auto answer = shared.parts.feeds->rank(*rank);
  if (!answer) return problem(answer.error());
  json::object body = answer_json(*answer, rank->explain);
  body["removed"] = removed_json(answer->removed);
  return json_answer(body);
}

}  // namespace

void add_feed_routes(const std::shared_ptr<ApiShared>& shared, std::vector<Route>& routes) {
  if (shared->parts.feeds == nullptr) return;
  routes.push_back({"GET", "/v1/feed/{user}", answer_with([shared](const HttpRequest& request) {
                      return get_feed(*shared, request);
                    }),
                    Scope::kRead});
  routes.push_back({"POST", "/v1/rank", answer_with([shared](const HttpRequest& request) {
                      return post_rank(*shared, request);
                    }),
                    Scope::kRead});
}

}  // namespace sirenfeed::serving
