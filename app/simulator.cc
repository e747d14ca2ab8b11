#include "app/simulator.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

namespace sirenfeed::app {

namespace json = boost::json;
using base::ErrorCode;
using base::fail;

base::Result<void> SimulatorConfig::validate() const {
  if (feed_count == 0) {
    return fail(ErrorCode::kInvalidArgument, "simulate.feed_count: expected at least 1");
  }
  if (!(speed >= 0)) {
    return fail(ErrorCode::kInvalidArgument, "simulate.speed: expected 0 (max) or more, got {}",
                speed);
  }
  if (!(days > 0)) {
    return fail(ErrorCode::kInvalidArgument, "simulate.days: expected more than 0, got {}", days);
  }
  return {};
}

double SimulatorReport::regret_per_item() const {
  return shown == 0 ? 0 : (best_sum - served_sum) / static_cast<double>(shown);
}

double SimulatorReport::share_of_optimum() const {
  const double room = best_sum - random_sum;
  return room <= 0 ? 0 : (served_sum - random_sum) / room;
}

namespace {

constexpr base::UnixMs kClickDelayMs = 1000;
constexpr std::size_t kEventsOfOnePost = 200;
constexpr std::size_t kQuotedBytesMax = 300;  // of a response, in an error

void add(SimulatorReport& to, const SimulatorReport& one) {
  to.visits += one.visits;
  to.visits_without_feed += one.visits_without_feed;
  to.shown += one.shown;
  to.clicks += one.clicks;
  to.unknown_items += one.unknown_items;
  to.served_sum += one.served_sum;
  to.best_sum += one.best_sum;
  to.random_sum += one.random_sum;
  to.time_ms = one.time_ms;
}

class Loop {
 public:
  Loop(SimulatedWorld& world, std::string run, const SimulatorConfig& config, HttpClient& client,
       std::stop_token stop)
      : world_(world),
        run_(std::move(run)),
        config_(config),
        client_(client),
        stop_(std::move(stop)) {}

  /// Tells the server of the items that live at `time_ms` and were born before.
  base::Result<void> announce_living(base::UnixMs time_ms);

  base::Result<SimulatorReport> visit(const WorldVisit& visit);

 private:
  base::Result<HttpResponse> request(const char* method, const std::string& target,
                                     const std::string& body = {});
  base::Result<void> publish(json::array events);
  base::Result<json::object> feed(const std::string& user);

  SimulatedWorld& world_;
  const std::string run_;
  const SimulatorConfig& config_;
  HttpClient& client_;
  const std::stop_token stop_;
  std::uint64_t impressions_ = 0;
};

// A busy server (429, 503) is asked again until backlog_wait_max or a stop.
base::Result<HttpResponse> Loop::request(const char* method, const std::string& target,
                                         const std::string& body) {
  const auto deadline = std::chrono::steady_clock::now() + config_.backlog_wait_max;
  while (true) {
    SF_ASSIGN(HttpResponse response, client_.request(method, target, body));
    const bool busy = response.status == 429 || response.status == 503;
    const bool waits = !stop_.stop_requested() && std::chrono::steady_clock::now() < deadline;
    if (!busy || !waits) return response;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // as Retry-After asks, in small
  }
}

base::Result<void> Loop::publish(json::array events) {
  SF_ASSIGN(const HttpResponse response, request("POST", "/v1/events", json::serialize(events)));
  if (response.status < 300) return {};
  return fail(ErrorCode::kUnavailable, "POST /v1/events answered {}: {}", response.status,
              response.body.substr(0, kQuotedBytesMax));
}

base::Result<json::object> Loop::feed(const std::string& user) {
  const std::string target =
      "/v1/feed/" + user + "?surface=home&count=" + std::to_string(config_.feed_count);
  SF_ASSIGN(const HttpResponse response, request("GET", target));
  boost::system::error_code error;
  json::value parsed = json::parse(response.body, error);
  if (response.status != 200 || error || !parsed.is_object()) {
    return fail(ErrorCode::kUnavailable, "GET {} answered {}: {}", target, response.status,
                response.body.substr(0, kQuotedBytesMax));
  }
  return std::move(parsed.as_object());
}

json::object item_event(const WorldItem& item, base::UnixMs time_ms) {
  const std::string topic = SimulatedWorld::topic_id(item.topic);
  json::object event{
      {"topic", "items"},
      {"item_id", item.id},
      {"timestamp", time_ms},
      {"published_at", item.born_ms},
      {"tags", json::array{json::string(topic)}},
      {"title", item.author.empty() ? "A story about " + topic
                                    : "A story of " + item.author + " about " + topic}};
  if (!item.author.empty()) event["author_id"] = item.author;
  return event;
}

base::Result<void> Loop::announce_living(base::UnixMs time_ms) {
  json::array events;
  for (const std::size_t i : world_.births_until(time_ms)) {
    const WorldItem& item = world_.items()[i];
    if (!world_.lives(item, time_ms)) continue;
    events.push_back(item_event(item, time_ms));
    if (events.size() < kEventsOfOnePost) continue;
    SF_TRY(publish(std::exchange(events, {})));
  }
  if (events.empty()) return {};
  return publish(std::move(events));
}

base::Result<SimulatorReport> Loop::visit(const WorldVisit& visit) {
  SimulatorReport report{.visits = 1, .time_ms = visit.time_ms};
  json::array events;
  for (const std::size_t i : world_.births_until(visit.time_ms)) {
    events.push_back(item_event(world_.items()[i], world_.items()[i].born_ms));
  }
  if (!events.empty()) SF_TRY(publish(std::move(events)));

  const std::string user = world_.user_id(visit.user);
  SF_ASSIGN(const json::object served, feed(user));
  json::array shown_ids, actions;
  const std::string impression_id = run_ + std::to_string(impressions_++);
  std::vector<std::size_t> shown;
  for (const json::value& entry : served.at("items").as_array()) {
    const std::string id(entry.at("item_id").as_string());
    const std::size_t item = world_.find_item(id);
    if (item == world_.items().size()) {
      ++report.unknown_items;
      continue;
    }
    shown_ids.push_back(json::string(id));
    shown.push_back(item);
    const double probability = world_.click_probability(visit.user, item, visit.time_ms);
    report.served_sum += probability;
    if (!world_.draw(probability)) continue;
    ++report.clicks;
    const base::UnixMs clicked_ms = visit.time_ms + kClickDelayMs;
    json::object action{{"topic", "clicks"},
                        {"user_id", user},
                        {"item_id", id},
                        {"timestamp", clicked_ms},
                        {"type", "click"},
                        {"impression_id", impression_id},
                        {"event_id", impression_id + ":" + id + ":click"}};
    actions.push_back(action);
    if (world_.draw(0.5)) {
      action["type"] = "long_view";
      action["event_id"] = impression_id + ":" + id + ":long_view";
      actions.push_back(action);
    }
  }
  report.shown = shown.size();
  const WorldOptimum optimum = world_.optimum(visit.user, visit.time_ms, shown.size());
  report.best_sum = optimum.best;
  report.random_sum = optimum.random;
  for (const std::size_t item : shown) world_.show(visit.user, item, visit.time_ms);
  if (shown_ids.empty()) {
    report.visits_without_feed = 1;
    return report;
  }
  json::array reaction;
  reaction.push_back({{"topic", "impressions"},
                      {"impression_id", impression_id},
                      {"user_id", user},
                      {"timestamp", visit.time_ms},
                      {"items", std::move(shown_ids)},
                      {"request_id", served.at("request_id")},
                      {"surface", "home"}});
  for (json::value& action : actions) reaction.push_back(std::move(action));
  SF_TRY(publish(std::move(reaction)));
  return report;
}

/// What the server says of itself before the first visit.
class Start {
 public:
  Start(const SimulatorConfig& config, HttpClient& client, const SimulatorCallbacks& callbacks)
      : config_(config), client_(client), callbacks_(callbacks) {}

  /// Waits until the server answers and has read its log; gives its now. nullopt when stopped.
  base::Result<std::optional<base::UnixMs>> now_of_server(const std::stop_token& stop) {
    const auto deadline = std::chrono::steady_clock::now() + config_.ready_wait_max;
    while (!stop.stop_requested()) {
      const auto now = ask();
      if (now) return *now;
      if (std::chrono::steady_clock::now() >= deadline) return fail(now.error());
      say(now.error().message);
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    return std::nullopt;
  }

 private:
  base::Result<base::UnixMs> ask() {
    SF_ASSIGN(const HttpResponse ready, client_.request("GET", "/readyz"));
    if (ready.body.find("catching_up") != std::string::npos) {
      return fail(ErrorCode::kUnavailable, "the server is still reading its log");
    }
    SF_ASSIGN(const HttpResponse health, client_.request("GET", "/healthz"));
    boost::system::error_code error;
    const json::value parsed = json::parse(health.body, error);
    if (health.status != 200 || error || !parsed.is_object()) {
      return fail(ErrorCode::kUnavailable, "GET /healthz answered {}", health.status);
    }
    const json::value* now = parsed.as_object().if_contains("now_ms");
    return now != nullptr && now->is_int64() ? now->as_int64() : 0;
  }
  void say(const std::string& what) {
    const auto now = std::chrono::steady_clock::now();
    if (!callbacks_.on_wait || now < next_word_) return;
    next_word_ = now + std::chrono::seconds(2);
    callbacks_.on_wait(what);
  }

  const SimulatorConfig& config_;
  HttpClient& client_;
  const SimulatorCallbacks& callbacks_;
  std::chrono::steady_clock::time_point next_word_;
};

void wait_until(std::chrono::steady_clock::time_point when, const std::stop_token& stop) {
  std::mutex mutex;
  std::condition_variable_any stopped;
  std::unique_lock lock(mutex);
  stopped.wait_until(lock, stop, when, [] { return false; });
}

}  // namespace

base::Result<SimulatorReport> simulate(const WorldConfig& world_config,
                                       const SimulatorConfig& config, HttpClient& client,
                                       const std::stop_token& stop,
                                       const SimulatorCallbacks& callbacks) {
  SF_TRY(world_config.validate());
  SF_TRY(config.validate());
  Start start(config, client, callbacks);
  SF_ASSIGN(const auto server_now, start.now_of_server(stop));
  SimulatorReport total, hour;
  if (!server_now) return total;
  const base::UnixMs begin_ms = std::max(world_config.start_ms, *server_now);
  const auto end_ms =
      begin_ms + static_cast<base::UnixMs>(config.days * static_cast<double>(base::kMsPerDay));
  SimulatedWorld world(world_config);
  WorldVisit visit = world.next_visit();
  while (visit.time_ms <= begin_ms) visit = world.next_visit();
  Loop loop(world, fmt::format("sim-{}-{}-", world_config.seed, begin_ms), config, client, stop);
  SF_TRY(loop.announce_living(begin_ms));
  const auto wall_start = std::chrono::steady_clock::now();
  base::UnixMs hour_end_ms = begin_ms + base::kMsPerHour;
  for (; visit.time_ms < end_ms && !stop.stop_requested(); visit = world.next_visit()) {
    if (config.speed > 0) {
      const double ahead_s = static_cast<double>(visit.time_ms - begin_ms) / 1000 / config.speed;
      wait_until(wall_start + std::chrono::duration_cast<std::chrono::nanoseconds>(
                                  std::chrono::duration<double>(ahead_s)),
                 stop);
      if (stop.stop_requested()) break;
    }
    const auto one = loop.visit(visit);
    if (!one && stop.stop_requested()) break;  // the server may have been stopped with us
    if (!one) return fail(one.error());
    add(total, *one);
    add(hour, *one);
    if (visit.time_ms >= hour_end_ms) {
      if (callbacks.on_progress) callbacks.on_progress(hour, total);
      hour = {};
      while (hour_end_ms <= visit.time_ms) hour_end_ms += base::kMsPerHour;
    }
  }
  return total;
}

}  // namespace sirenfeed::app
