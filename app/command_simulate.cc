#include <fmt/chrono.h>

#include <boost/json.hpp>
#include <cmath>
#include <cstdio>
#include <memory>

#include "app/command_line.h"
#include "app/progress_line.h"
#include "app/simulated_log.h"
#include "app/simulator.h"
#include "app/stop_signal.h"

namespace sirenfeed::app {
namespace {

namespace json = boost::json;

struct SimulateOptions {
  std::string url;
  bool json_output = false;
  SimulatedLogConfig log;  // file "": a closed loop
  bool daily_only = false;
};

json::object to_json(const SimulatorReport& report) {
  return {{"time_ms", report.time_ms},
          {"visits", report.visits},
          {"visits_without_feed", report.visits_without_feed},
          {"shown", report.shown},
          {"clicks", report.clicks},
          {"unknown_items", report.unknown_items},
          {"regret_per_item", report.regret_per_item()},
          {"share_of_optimum", report.share_of_optimum()}};
}

void print_hour(const SimulatorReport& hour, const SimulatorReport& total) {
  const auto shown = static_cast<double>(std::max<std::uint64_t>(hour.shown, 1));
  fmt::print(
      "{:%a %H:%M}  visits {:>5}  click rate {:.3f}  best possible {:.3f}  random {:.3f}  "
      "regret {:.3f}  (all: {:.0f} % of the way from random to best)\n",
      fmt::gmtime(static_cast<std::time_t>(hour.time_ms / 1000)), hour.visits,
      static_cast<double>(hour.clicks) / shown, hour.best_sum / shown, hour.random_sum / shown,
      hour.regret_per_item(), 100 * total.share_of_optimum());
  std::fflush(stdout);
}

base::Result<void> run_closed_loop(const SimulateOptions& options, const Settings& settings,
                                   const WorldConfig& world) {
  const std::stop_token stop = stop_on_signals();
  SF_ASSIGN(HttpClient client, HttpClient::make(options.url, settings.simulator.request_timeout));
  json::array hours;
  SimulatorCallbacks callbacks;
  callbacks.on_wait = [&](const std::string& what) {
    fmt::print(stderr, "waiting for {}: {}\n", options.url, what);
  };
  callbacks.on_progress = [&](const SimulatorReport& hour, const SimulatorReport& all) {
    if (options.json_output) {
      hours.push_back(to_json(hour));
    } else {
      print_hour(hour, all);
    }
  };
  SF_ASSIGN(const SimulatorReport total,
            simulate(world, settings.simulator, client, stop, callbacks));
  if (options.json_output) {
    json::object report = to_json(total);
    report["hours"] = std::move(hours);
    fmt::print("{}\n", json::serialize(report));
  } else {
    fmt::print(
        "{} visits, {} items shown, {} clicks; regret {:.4f} clicks an item; {:.1f} % of the "
        "way from random to the Bayes ranker\n",
        total.visits, total.shown, total.clicks, total.regret_per_item(),
        100 * total.share_of_optimum());
  }
  return {};
}

json::value number(double value) {
  return std::isfinite(value) ? json::value(value) : json::value(nullptr);
}

base::Result<void> write_log(const SimulateOptions& options, const WorldConfig& world) {
  ProgressLine progress("writing");
  SF_ASSIGN(const SimulatedLogReport report,
            write_simulated_log(world, options.log, [&](double share, std::uint64_t impressions) {
              progress.update(share, impressions, "impressions");
            }));
  progress.finish();
  if (options.json_output) {
    fmt::print("{}\n",
               json::serialize(json::object{{"file", options.log.file},
                                            {"items", report.items},
                                            {"impressions", report.impressions},
                                            {"shown", report.shown},
                                            {"clicks", report.clicks},
                                            {"bayes_auc", number(report.bayes_auc)},
                                            {"last_from_ms", report.last_from_ms},
                                            {"bayes_auc_last", number(report.bayes_auc_last)}}));
    return {};
  }
  fmt::print(
      "{} items, {} impressions, {} clicks; AUC of the true probabilities {:.4f}, over the last "
      "third (from {:%Y-%m-%dT%H:%MZ}) {:.4f}\n",
      report.items, report.impressions, report.clicks, report.bayes_auc,
      fmt::gmtime(static_cast<std::time_t>(report.last_from_ms / 1000)), report.bayes_auc_last);
  return {};
}

base::Result<void> run_simulate(SimulateOptions& options, const Settings& settings) {
  const WorldConfig world = options.daily_only ? daily_world(settings.world) : settings.world;
  if (options.log.file.empty()) {
    if (options.log.truth_file.empty()) return run_closed_loop(options, settings, world);
    return base::fail(base::ErrorCode::kInvalidArgument, "--truth: goes with --write only");
  }
  options.log.days = settings.simulator.days;
  return write_log(options, world);
}

}  // namespace

void add_simulate_command(CommandLine& line) {
  auto options = std::make_shared<SimulateOptions>();
  CLI::App& command = add_command(
      line, "simulate",
      "Users with known daily and weekly habits who read the served feed and react; prints the "
      "regret against the true optimum",
      "  sirenfeed up --clock event &\n"
      "  sirenfeed simulate --url http://127.0.0.1:8080 --simulate.days 3\n"
      "  sirenfeed simulate --url http://127.0.0.1:8080 --simulate.speed 3600 --json\n"
      "  sirenfeed simulate --write log.ndjson.gz --truth truth.csv.gz --simulate.days 12");
  command.add_option("--url", options->url, "The feed's address")
      ->default_val("http://127.0.0.1:8080");
  command.add_flag("--json", options->json_output, "Only the final report, as one JSON object");
  command.add_option("--write", options->log.file,
                     "Write a log for `evaluate` instead, items shown at random (NDJSON; *.gz)");
  command.add_option("--truth", options->log.truth_file,
                     "With --write: CSV of each shown item's click probability (*.gz)");
  command.add_option("--items-per-visit", options->log.items_per_visit, "With --write")
      ->capture_default_str();
  command.add_flag(
      "--daily-only", options->daily_only,
      "A plainer world: no weekly habit, no drift, no authors, 600 items at the start");
  command.callback([&line, options] {
    line.action = [&line, options] { return run_simulate(*options, line.settings); };
  });
}

}  // namespace sirenfeed::app
