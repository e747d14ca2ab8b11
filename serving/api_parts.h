#pragma once
// What the handlers of one process share; internal to serving/api*.cc.
#include <atomic>
#include <boost/json.hpp>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "serving/api.h"
#include "serving/applied_waiter.h"
#include "serving/router.h"

namespace sirenfeed::serving {

/// Shared with callbacks of the log, which may come after the Api is gone.
struct ApiShared {
  ApiShared(const ApiConfig& api_config, ApiParts api_parts)
      : config(api_config), parts(std::move(api_parts)), waiter(api_config, parts.applied) {}

  /// Time of what the API itself writes: the clock's, or the wall's before the first event.
  [[nodiscard]] base::UnixMs now_ms() const;
  /// Where an event belongs: its topic, and the partition of its key.
  [[nodiscard]] ingest::TopicPartition target_of(const ingest::EventBody& event) const;

  const ApiConfig config;
  const ApiParts parts;
  AppliedWaiter waiter;
  std::atomic<std::size_t> events_in_flight = 0;
  const std::chrono::steady_clock::time_point started = std::chrono::steady_clock::now();
};

[[nodiscard]] HttpResponse json_answer(const boost::json::value& body, int status = 200);

/// One group of routes each; a group whose parts are absent adds nothing.
void add_feed_routes(const std::shared_ptr<ApiShared>& shared, std::vector<Route>& routes);
void add_event_routes(const std::shared_ptr<ApiShared>& shared, std::vector<Route>& routes);
void add_user_routes(const std::shared_ptr<ApiShared>& shared, std::vector<Route>& routes);
void add_item_routes(const std::shared_ptr<ApiShared>& shared, std::vector<Route>& routes);
void add_model_routes(const std::shared_ptr<ApiShared>& shared, std::vector<Route>& routes);
void add_metric_routes(const std::shared_ptr<ApiShared>& shared, std::vector<Route>& routes);
void add_health_routes(const std::shared_ptr<ApiShared>& shared, std::vector<Route>& routes);
void add_admin_routes(const std::shared_ptr<ApiShared>& shared, std::vector<Route>& routes);
void add_page_routes(const std::shared_ptr<ApiShared>& shared, std::vector<Route>& routes);

/// Appends `event` to the log and answers when it is applied (200), or durable but not applied in
/// time (202 with a receipt), or neither (503). `done` goes into the answer's "status".
void append_and_answer(const std::shared_ptr<ApiShared>& shared,
                       const std::shared_ptr<Exchange>& exchange, const ingest::EventBody& event,
                       std::string_view done);

}  // namespace sirenfeed::serving
