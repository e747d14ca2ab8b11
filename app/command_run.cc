// up, serve and train: the long-running processes.
#include <condition_variable>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "app/command_line.h"
#include "app/feed_node.h"
#include "app/learn_recorded.h"
#include "app/open_log.h"
#include "app/process_metrics.h"
#include "app/progress_line.h"
#include "app/replay_arguments.h"
#include "app/replay_convention.h"
#include "app/simulator.h"
#include "app/stop_signal.h"
#include "app/train_node.h"
#include "base/log.h"
#include "serving/api.h"
#include "serving/http_server.h"

namespace sirenfeed::app {
namespace {

using base::ErrorCode;
using base::fail;

constexpr std::chrono::milliseconds kWatchInterval{200};

/// Waits for a stop; returns the trainer's error when it ends by itself.
base::Result<void> watch(const TrainNode* trainer, const std::stop_token& stop) {
  std::mutex mutex;
  std::condition_variable_any wake;
  while (!stop.stop_requested()) {
    if (trainer != nullptr) {
      const trainer::TrainStatus status = trainer->status();
      if (status.state == trainer::TrainState::kFailed) {
        return fail(ErrorCode::kCorrupt, "the trainer has stopped: {}", status.last_error);
      }
    }
    std::unique_lock lock(mutex);
    wake.wait_for(lock, stop, kWatchInterval, [] { return false; });
  }
  base::log_info("stopping");
  return {};
}

void print_welcome(const std::string& url) {
  fmt::print(
      "\nSirenfeed is up. The page:  {0}/\n\n"
      "Try:\n"
      "  curl '{0}/v1/feed/user-1?count=5&explain=true'\n"
      "  curl -X POST '{0}/v1/rank' -d "
      "'{{\"user\":\"user-1\",\"items\":[\"item-1\",\"item-2\"]}}'\n"
      "  curl '{0}/v1/metrics'\n\n",
      url);
  std::fflush(stdout);
}

/// Simulated users in the same process, over HTTP as any client.
class SimulatedUsers {
 public:
  SimulatedUsers(const Settings& settings, std::string url)
      : settings_(settings),
        url_(std::move(url)),
        thread_([this](const std::stop_token& stop) { run(stop); }) {}

 private:
  void run(const std::stop_token& stop) const {
    auto client = HttpClient::make(url_, settings_.simulator.request_timeout);
    if (!client) {
      base::log_error("simulated users: {}", client.error().message);
      return;
    }
    SimulatorCallbacks callbacks;
    callbacks.on_progress = [](const SimulatorReport& hour, const SimulatorReport& total) {
      const auto shown = static_cast<double>(std::max<std::uint64_t>(hour.shown, 1));
      base::log_info(
          "simulated users: {} visits, click rate {:.3f} (best possible {:.3f}, random {:.3f}); "
          "all: {:.0f} % of the way from random to best",
          total.visits, static_cast<double>(hour.clicks) / shown, hour.best_sum / shown,
          hour.random_sum / shown, 100 * total.share_of_optimum());
    };
    const auto report = simulate(settings_.world, settings_.simulator, *client, stop, callbacks);
    if (!report && !stop.stop_requested()) {
      base::log_error("simulated users have stopped: {}", report.error().message);
    }
  }

  const Settings& settings_;
  const std::string url_;
  std::jthread thread_;  // last: it uses the others
};

base::Result<void> run_up(const Settings& settings, bool simulated) {
  SF_ASSIGN(const DataUse use, DataUse::share(settings.data_dir));
  const std::stop_token stop = stop_on_signals();
  base::MetricsRegistry registry;
  const ProcessMetrics process(registry, settings.data_dir);
  SF_ASSIGN(const auto log, open_log(settings, use));
  SF_ASSIGN(const auto node, FeedNode::start(settings, *log, registry));
  SF_ASSIGN(const auto trainer, TrainNode::open(settings, *log, registry));
  trainer->start();
  print_welcome(node->url());
  base::Result<void> ended;
  {
    std::optional<SimulatedUsers> users;
    if (simulated) users.emplace(settings, node->url());
    ended = watch(trainer.get(), stop);
  }
  node->stop();
  trainer->stop();
  return ended;
}

base::Result<void> run_serve(const Settings& settings) {
  SF_TRY(settings.kafka_required());
  SF_ASSIGN(const DataUse use, DataUse::share(settings.data_dir));
  const std::stop_token stop = stop_on_signals();
  base::MetricsRegistry registry;
  const ProcessMetrics process(registry, settings.data_dir);
  SF_ASSIGN(const auto log, open_log(settings, use));
  SF_ASSIGN(const auto node, FeedNode::start(settings, *log, registry));
  base::log_info("serving at {}", node->url());
  SF_TRY(watch(nullptr, stop));
  node->stop();
  return {};
}

serving::Readiness training_readiness(const TrainNode& node) {
  const trainer::TrainStatus status = node.status();
  serving::Readiness readiness;
  readiness.ready = status.caught_up && status.state != trainer::TrainState::kFailed;
  if (!status.caught_up) readiness.reasons.emplace_back("catching_up: examples are being learned");
  if (!status.last_error.empty()) readiness.reasons.push_back(status.last_error);
  for (const auto& stopped : status.stopped) {
    readiness.reasons.push_back(
        fmt::format("stopped examples/{}: {}", stopped.partition, stopped.reason));
  }
  return readiness;
}

/// What `train` is given beside the settings.
struct TrainOptions {
  std::string recorded;  // --from-log; "": none
  ReplayArguments replay;
};

base::Result<void> learn_recorded_first(const TrainOptions& options, const Settings& settings) {
  if (options.recorded.empty()) return {};
  SF_ASSIGN(ReplayChoice choice, replay_choice(options.replay, settings));
  ProgressLine progress("learning " + options.recorded);
  SF_TRY(learn_recorded(
      {options.recorded, choice.format, std::move(choice.options)}, settings,
      [&](double share, std::uint64_t examples) { progress.update(share, examples, "examples"); }));
  progress.finish();
  return {};
}

base::Result<void> run_train(const TrainOptions& options, const Settings& settings) {
  SF_TRY(settings.kafka_required());
  SF_ASSIGN(const DataUse use, DataUse::share(settings.data_dir));
  SF_TRY(learn_recorded_first(options, settings));
  const std::stop_token stop = stop_on_signals();
  base::MetricsRegistry registry;
  const ProcessMetrics process(registry, settings.data_dir);
  SF_ASSIGN(const auto log, open_log(settings, use));
  SF_ASSIGN(const auto node, TrainNode::open(settings, *log, registry));
  serving::ServingProbe probe(registry);
  serving::ApiParts parts{registry, probe};
  parts.role = "train";
  parts.readiness = [&node] { return training_readiness(*node); };
  serving::Api api(settings.serving.api, std::move(parts));
  SF_ASSIGN(const auto server,
            serving::HttpServer::start(settings.serving.http, api.router(), probe));
  base::log_info("training; metrics at {}/metrics", server->url());
  base::Result<void> ended;
  if (settings.trainer.until_end) {
    const std::stop_callback ask(stop, [&log, &node] {
      log->stop_waiting();
      node->stop();
    });
    ended = node->run();
  } else {
    node->start();
    ended = watch(node.get(), stop);
    log->stop_waiting();
    node->stop();
  }
  const trainer::TrainStatus status = node->status();
  base::log_info("learned {} examples; newest version {}", status.examples,
                 status.published_version);
  server->stop();
  return ended;
}

}  // namespace

void add_up_command(CommandLine& line) {
  auto simulated = std::make_shared<bool>(false);
  CLI::App& command = add_command(
      line, "up",
      "Everything in one process: embedded log (or --brokers), features, trainer, feeds",
      "  sirenfeed up --data data --http 127.0.0.1:8080\n"
      "  sirenfeed up --simulate --simulate.speed 3600");
  command.add_flag("--simulate", *simulated,
                   "With simulated users who read the feed and react (implies --clock event)");
  command.callback([&line, simulated] {
    if (*simulated) line.settings.clock = "event";
    line.action = [&line, simulated] { return run_up(line.settings, *simulated); };
  });
}

void add_serve_command(CommandLine& line) {
  CLI::App& command =
      add_command(line, "serve", "Ingest, features and feeds on Kafka",
                  "  sirenfeed serve --brokers kafka:9092 --data /data --http 0.0.0.0:8080");
  command.callback([&line] { line.action = [&line] { return run_serve(line.settings); }; });
}

void add_train_command(CommandLine& line) {
  CLI::App& command = add_command(
      line, "train", "Learn from topic examples on Kafka and publish model versions",
      "  sirenfeed train --brokers kafka:9092 --data /data --models /models --http 0.0.0.0:8081\n"
      "  sirenfeed train --brokers 127.0.0.1:9092 --until-end --trainer.batch_linger_ms -1\n"
      "  sirenfeed train --brokers 127.0.0.1:9092 --from-log impressions.csv.gz --format kuairand");
  auto options = std::make_shared<TrainOptions>();
  command.add_option("--from-log", options->recorded,
                     "Learn this recorded input first, where there is no checkpoint yet; then the "
                     "topic's examples of later exposures");
  add_replay_arguments(command, options->replay);
  command.add_flag("--until-end", line.settings.trainer.until_end,
                   "Stop at the log's end, after learning the incomplete last batch");
  command.callback([&line, options] {
    line.prepare = [&line, options]() -> base::Result<void> {
      if (options->recorded.empty()) return {};
      return apply_replay_convention(line.root, options->replay.format, line.settings);
    };
    line.action = [&line, options] { return run_train(*options, line.settings); };
  });
}

}  // namespace sirenfeed::app
