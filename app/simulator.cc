#include "app/simulator.h"

#include <algorithm>
#include <boost/json.hpp>
#include <thread>

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
  Loop(SimulatedWorld& world, const SimulatorConfig& config, HttpClient& client)
      : world_(world), config_(config), client_(client) {}

  base::Result<SimulatorReport> visit(const WorldVisit& visit);

 private:
  base::Result<HttpResponse> request(const char* method, const std::string& target,
                                     const std::string& body = {});
  base::Result<void> publish(json::array events);
  base::Result<json::object> feed(const std::string& user);
  void score_against_the_best(const WorldVisit& visit, SimulatorReport& report) const;

  SimulatedWorld& world_;
  const SimulatorConfig& config_;
  HttpClient& client_;
  std::uint64_t impressions_ = 0;
};

// A busy server (429, 503) is asked again until backlog_wait_max.
base::Result<HttpResponse> Loop::request(const char* method, const std::string& target,
                                         const std::string& body) {
  const auto deadline = std::chrono::steady_clock::now() + config_.backlog_wait_max;
  while (true) {
    SF_ASSIGN(HttpResponse response, client_.request(method, target, body));
    const bool busy = response.status == 429 || response.status == 503;
    if (!busy || std::chrono::steady_clock::now() >= deadline) return response;
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

void Loop::score_against_the_best(const WorldVisit& visit, SimulatorReport& report) const {
  std::vector<double> probabilities;
  for (const std::size_t item : world_.showable(visit.user, visit.time_ms)) {
    probabilities.push_back(world_.click_probability(visit.user, item, visit.time_ms));
  }
  if (probabilities.empty()) return;
  double sum = 0;
  for (const double p : probabilities) sum += p;
  const auto shown =
      static_cast<std::ptrdiff_t>(std::min<std::size_t>(report.shown, probabilities.size()));
  std::partial_sort(probabilities.begin(), probabilities.begin() + shown, probabilities.end(),
                    std::greater<>());
  for (std::ptrdiff_t i = 0; i < shown; ++i) {
    report.best_sum += probabilities[static_cast<std::size_t>(i)];
  }
  report.random_sum += sum / static_cast<double>(probabilities.size()) * static_cast<double>(shown);
}

base::Result<SimulatorReport> Loop::visit(const WorldVisit& visit) {
  SimulatorReport report{.visits = 1, .time_ms = visit.time_ms};
  json::array events;
  for (const std::size_t i : world_.births_until(visit.time_ms)) {
    const WorldItem& item = world_.items()[i];
    events.push_back({{"topic", "items"},
                      {"item_id", item.id},
                      {"timestamp", item.born_ms},
                      {"published_at", item.born_ms},
                      {"author_id", item.author},
                      {"tags", json::array{SimulatedWorld::topic_id(item.topic)}},
                      {"title", "A story of " + item.author + " about " +
                                    SimulatedWorld::topic_id(item.topic)}});
  }
  if (!events.empty()) SF_TRY(publish(std::move(events)));

  const std::string user = world_.user_id(visit.user);
  SF_ASSIGN(const json::object served, feed(user));
  json::array shown_ids, actions;
  const std::string impression_id = "sim-" + std::to_string(impressions_++);
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
  score_against_the_best(visit, report);
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

base::Result<void> wait_until_ready(const SimulatorConfig& config, HttpClient& client,
                                    const std::stop_token& stop) {
  const auto deadline = std::chrono::steady_clock::now() + config.ready_wait_max;
  while (!stop.stop_requested()) {
    const auto response = client.request("GET", "/healthz");
    if (response && response->status == 200) return {};
    if (std::chrono::steady_clock::now() >= deadline) {
      return response ? base::Result<void>(fail(ErrorCode::kUnavailable, "GET /healthz answered {}",
                                                response->status))
                      : base::Result<void>(fail(response.error()));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  return {};
}

}  // namespace

base::Result<SimulatorReport> simulate(
    SimulatedWorld& world, base::UnixMs start_ms, const SimulatorConfig& config, HttpClient& client,
    const std::stop_token& stop,
    const std::function<void(const SimulatorReport&, const SimulatorReport&)>& on_progress) {
  SF_TRY(config.validate());
  SF_TRY(wait_until_ready(config, client, stop));
  const auto wall_start = std::chrono::steady_clock::now();
  const auto end_ms =
      start_ms + static_cast<base::UnixMs>(config.days * static_cast<double>(base::kMsPerDay));
  Loop loop(world, config, client);
  SimulatorReport total, hour;
  base::UnixMs hour_end_ms = start_ms + base::kMsPerHour;
  while (!stop.stop_requested()) {
    const WorldVisit visit = world.next_visit();
    if (visit.time_ms >= end_ms) break;
    if (config.speed > 0) {
      const double ahead_s = static_cast<double>(visit.time_ms - start_ms) / 1000 / config.speed;
      std::this_thread::sleep_until(wall_start +
                                    std::chrono::duration_cast<std::chrono::nanoseconds>(
                                        std::chrono::duration<double>(ahead_s)));
    }
    SF_ASSIGN(const SimulatorReport one, loop.visit(visit));
    add(total, one);
    add(hour, one);
    if (visit.time_ms >= hour_end_ms) {
      if (on_progress) on_progress(hour, total);
      hour = {};
      while (hour_end_ms <= visit.time_ms) hour_end_ms += base::kMsPerHour;
    }
  }
  return total;
}

}  // namespace sirenfeed::app
