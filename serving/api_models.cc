// /v1/model, /v1/models, pin, unpin, rollback.
#include <charconv>

#include "serving/api_parts.h"
#include "serving/manifest_json.h"
#include "serving/model_slot.h"

namespace sirenfeed::serving {

namespace json = boost::json;

json::value manifest_metrics(const model::Manifest& manifest) {
  boost::system::error_code ec;
  json::value metrics = json::parse(manifest.metrics_json, ec);
  return ec ? json::value(json::object()) : metrics;
}

json::object manifest_json(const model::Manifest& manifest) {
  json::object out{{"version", manifest.version},
                   {"created", manifest.created_ms},
                   {"variant", manifest.variant},
                   {"bytes", manifest.bytes()},
                   {"xxh3", fmt::format("{:016x}", manifest.identity())},
                   {"full", manifest.full.has_value()},
                   {"metrics", manifest_metrics(manifest)}};
  if (manifest.delta) out["delta_of"] = manifest.delta->base;
  return out;
}

json::object model_json(ModelSlot& models) {
  const ModelStatus status = models.status();
  const ModelSlot::Snapshot snapshot = models.current();
  json::object out{{"version", status.version}};
  if (snapshot) {
    const model::ModelConfig& config = snapshot->model.config;
    out["variant"] = snapshot->manifest.variant;
    out["created"] = status.created_ms;
    out["loaded"] = status.loaded_ms;
    const base::UnixMs age = base::WallClock().now_ms() - status.created_ms;
    out["age_seconds"] = static_cast<double>(age) / 1000.0;
    out["tasks"] = json::value_from(config.tasks);
    out["actions"] = json::value_from(config.actions);
    out["history_max"] = config.history_max;
    out["context_features"] = config.context_row_width();
    out["dense_parameters"] = snapshot->model.dense.size();
    out["metrics"] = manifest_metrics(snapshot->manifest);
  }
  if (const auto pinned = models.pinned(); pinned && *pinned) out["pinned"] = **pinned;
  if (!status.last_error.empty()) {
    out["refused"] = {{"version", status.refused_version}, {"reason", status.last_error}};
  }
  return out;
}

namespace {

HttpResponse list_models(ModelSlot& models) {
  const auto manifests = models.list();
  if (!manifests) return problem(manifests.error());
  json::array versions;
  for (const model::Manifest& manifest : *manifests) versions.push_back(manifest_json(manifest));
  json::object body{{"current", models.status().version}, {"versions", std::move(versions)}};
  if (const auto pinned = models.pinned(); pinned && *pinned) body["pinned"] = **pinned;
  return json_answer(body);
}

HttpResponse pin_model(ModelSlot& models, const HttpRequest& request) {
  const std::string& text = request.path_parameter("n");
  std::uint64_t version = 0;
  const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), version);
  if (ec != std::errc() || end != text.data() + text.size() || version == 0) {
    return problem(400, "n", "n: expected the number of a version, from 1");
  }
  if (const auto pinned = models.pin(version); !pinned) {
    // A version that would be refused: another one may be asked for.
    const bool refused = pinned.error().code == base::ErrorCode::kCorrupt;
    return refused ? problem(409, "n", pinned.error().message) : problem(pinned.error(), "n");
  }
  return json_answer(model_json(models));
}

HttpResponse changed(ModelSlot& models, const base::Result<void>& result) {
  return result ? json_answer(model_json(models)) : problem(result.error());
}

HttpResponse roll_back(ModelSlot& models) {
  const auto version = models.rollback();
  if (!version && version.error().code == base::ErrorCode::kNotFound) {
    return problem(409, "", version.error().message);
  }
  return version ? json_answer(model_json(models)) : problem(version.error());
}

}  // namespace

void add_model_routes(const std::shared_ptr<ApiShared>& shared, std::vector<Route>& routes) {
  if (shared->parts.models == nullptr) return;
  ModelSlot& models = *shared->parts.models;
  const auto add = [&](const char* method, const char* pattern, Scope scope,
                       std::function<HttpResponse(const HttpRequest&)> handle) {
    routes.push_back({method, pattern, answer_with(std::move(handle)), scope});
  };
  add("GET", "/v1/model", Scope::kRead,
      [&models](const HttpRequest&) { return json_answer(model_json(models)); });
  add("GET", "/v1/models", Scope::kRead,
      [&models](const HttpRequest&) { return list_models(models); });
  add("POST", "/v1/models/{n}/pin", Scope::kAdmin,
      [&models](const HttpRequest& request) { return pin_model(models, request); });
  add("POST", "/v1/models/rollback", Scope::kAdmin,
      [&models](const HttpRequest&) { return roll_back(models); });
  add("POST", "/v1/models/unpin", Scope::kAdmin,
      [&models](const HttpRequest&) { return changed(models, models.unpin()); });
}

}  // namespace sirenfeed::serving
