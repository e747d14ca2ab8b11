// /healthz: the process answers. /readyz: it may be sent requests. And the end of a replayed input.
#include "base/build_info.h"
#include "serving/api_parts.h"

namespace sirenfeed::serving {

namespace json = boost::json;

namespace {

constexpr std::chrono::minutes kCloseWindowsMax{10};

HttpResponse healthz(const ApiShared& shared) {
  const auto up = std::chrono::steady_clock::now() - shared.started;
  json::object health{{"status", "ok"},
                      {"role", shared.parts.role},
                      {"version", base::kVersion},
                      {"commit", base::kCommit},
                      {"uptime_seconds", std::chrono::duration<double>(up).count()}};
  if (shared.parts.clock != nullptr) health["now_ms"] = shared.parts.clock->now_ms();
  return json_answer(std::move(health));
}

HttpResponse readyz(const ApiShared& shared) {
  Readiness readiness{.ready = true, .reasons = {}, .lag_events = 0};
  if (shared.parts.readiness) readiness = shared.parts.readiness();
  const char* status = !readiness.ready            ? "not_ready"
                       : readiness.reasons.empty() ? "ready"
                                                   : "degraded";
  HttpResponse response = json_answer({{"status", status},
                                       {"reasons", json::value_from(readiness.reasons)},
                                       {"lag_events", readiness.lag_events}},
                                      readiness.ready ? 200 : 503);
  if (!readiness.ready) response.headers.emplace_back("Retry-After", "1");
  return response;
}

}  // namespace

void add_health_routes(const std::shared_ptr<ApiShared>& shared, std::vector<Route>& routes) {
  routes.push_back({"GET", "/healthz",
                    answer_with([shared](const HttpRequest&) { return healthz(*shared); }),
                    Scope::kPublic, /*inline_on_io=*/true});
  routes.push_back({"GET", "/readyz",
                    answer_with([shared](const HttpRequest&) { return readyz(*shared); }),
                    Scope::kPublic, /*inline_on_io=*/true});
  if (!shared->parts.close_windows) return;
  routes.push_back(
      {"POST", "/v1/admin/close-windows",
       [shared](const std::shared_ptr<Exchange>& exchange) {
         // Everything that lies in the log is applied first, which may take long.
         exchange->respond_later(kCloseWindowsMax, [] {
           return problem(503, "", "the input is still being applied; ask again");
         });
         const auto closed = shared->parts.close_windows();
         exchange->respond(closed ? json_answer({{"status", "closed"}}) : problem(closed.error()));
       },
       Scope::kAdmin});
}

}  // namespace sirenfeed::serving
