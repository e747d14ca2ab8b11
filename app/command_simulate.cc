#include <fmt/chrono.h>

#include <boost/json.hpp>
#include <cstdio>
#include <memory>

#include "app/command_line.h"
#include "app/simulator.h"
#include "app/stop_signal.h"

namespace sirenfeed::app {
namespace {

namespace json = boost::json;

struct SimulateOptions {
  std::string url;
  bool json_output = false;
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

base::Result<void> run_simulate(const SimulateOptions& options, const Settings& settings) {
  SF_TRY(settings.world.validate());
  const std::stop_token stop = stop_on_signals();
  SF_ASSIGN(HttpClient client, HttpClient::make(options.url, settings.simulator.request_timeout));
  SimulatedWorld world(settings.world);
  SF_ASSIGN(const SimulatorReport total,
            simulate(world, settings.world.start_ms, settings.simulator, client, stop,
                     [&](const SimulatorReport& hour, const SimulatorReport& all) {
                       if (!options.json_output) print_hour(hour, all);
                     }));
  if (options.json_output) {
    fmt::print("{}\n", json::serialize(to_json(total)));
  } else {
    fmt::print(
        "{} visits, {} items shown, {} clicks; regret {:.4f} clicks an item; {:.1f} % of the "
        "way from random to the Bayes ranker\n",
        total.visits, total.shown, total.clicks, total.regret_per_item(),
        100 * total.share_of_optimum());
  }
  return {};
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
      "  sirenfeed simulate --url http://127.0.0.1:8080 --simulate.speed 3600 --json");
  command.add_option("--url", options->url, "The feed's address")
      ->default_val("http://127.0.0.1:8080");
  command.add_flag("--json", options->json_output, "Only the final report, as one JSON object");
  command.callback([&line, options] {
    line.action = [&line, options] { return run_simulate(*options, line.settings); };
  });
}

}  // namespace sirenfeed::app
