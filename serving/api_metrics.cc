// /metrics for Prometheus and /v1/metrics for the page.
#include <charconv>

#include "serving/api_parts.h"
#include "serving/manifest_json.h"
#include "serving/model_slot.h"

namespace sirenfeed::serving {

namespace json = boost::json;

namespace {

constexpr std::size_t kPointsDefault = 300;

/// `points` manifests spread evenly over the history, the newest always among them.
json::array series(const std::vector<model::Manifest>& history, std::size_t points) {
  json::array out;
  const std::size_t n = history.size();
  const std::size_t take = std::min(n, points);
  for (std::size_t i = 0; i < take; ++i) {
    const model::Manifest& manifest = history[n - 1 - (take - 1 - i) * n / take];
    out.push_back({{"version", manifest.version},
                   {"created", manifest.created_ms},
                   {"metrics", manifest_metrics(manifest)}});
  }
  return out;
}

json::array samples_json(const base::MetricsRegistry& registry) {
  json::array out;
  for (const base::MetricsRegistry::Sample& sample : registry.samples()) {
    json::object each{{"name", sample.name}};
    if (!sample.labels.empty()) each["labels"] = json::value_from(sample.labels);
    // A gauge may be NaN or infinite, JSON may not.
    each["value"] = sample.value == sample.value && sample.value - sample.value == 0
                        ? json::value(sample.value)
                        : json::value(nullptr);
    out.push_back(std::move(each));
  }
  return out;
}

HttpResponse get_metrics(const ApiShared& shared, const HttpRequest& request) {
  std::size_t points = kPointsDefault;
  for (const QueryParameter& parameter : request.query) {
    const std::string& text = parameter.raw_value;
    if (parameter.name != "points") {
      return problem(400, parameter.name, parameter.name + ": is no parameter; expected points");
    }
    const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), points);
    if (ec != std::errc() || end != text.data() + text.size() || points < 1 || points > 10'000) {
      return problem(400, "points", "points: expected a number from 1 to 10000");
    }
  }
  json::object body{{"now", base::WallClock().now_ms()}, {"role", shared.parts.role}};
  if (shared.parts.clock != nullptr) body["time"] = shared.now_ms();
  if (shared.parts.models != nullptr) {
    body["model"] = model_json(*shared.parts.models);
    body["versions"] = series(shared.parts.models->history(), points);
  }
  body["samples"] = samples_json(shared.parts.registry);
  return json_answer(body);
}

}  // namespace

void add_metric_routes(const std::shared_ptr<ApiShared>& shared, std::vector<Route>& routes) {
  routes.push_back({"GET", "/metrics", answer_with([shared](const HttpRequest&) {
                      return HttpResponse{.status = 200,
                                          .content_type = "text/plain; version=0.0.4",
                                          .body = shared->parts.registry.exposition(),
                                          .headers = {}};
                    }),
                    Scope::kPublic, /*inline_on_io=*/true});
  routes.push_back({"GET", "/v1/metrics", answer_with([shared](const HttpRequest& request) {
                      return get_metrics(*shared, request);
                    }),
                    Scope::kRead});
}

}  // namespace sirenfeed::serving
