#include "app/settings.h"

#include <fmt/ranges.h>
#include <tbb/info.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include "app/option_names.h"
#include "features/context_features.h"

namespace sirenfeed::app {
namespace {

using base::ErrorCode;
using base::fail;

/// "host:port" or "[v6]:port".
base::Result<void> split_address(const std::string& address, serving::HttpConfig& http) {
  const std::size_t colon = address.rfind(':');
  unsigned port = 0;
  const char* end = address.data() + address.size();
  if (colon == std::string::npos || colon == 0 ||
      std::from_chars(address.data() + colon + 1, end, port).ptr != end ||
      colon + 1 == address.size() || port > 65535) {
    return fail(ErrorCode::kInvalidArgument, "--http: expected ADDRESS:PORT, got '{}'", address);
  }
  http.address = address.substr(0, colon);
  http.port = static_cast<std::uint16_t>(port);
  return {};
}

std::optional<std::chrono::milliseconds> optional_ms(std::int64_t value) {
  if (value < 0) return std::nullopt;
  return std::chrono::milliseconds(value);
}

base::Result<std::pair<std::string, std::string>> split_pair(const std::string& option,
                                                             const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) {
    return fail(ErrorCode::kInvalidArgument, "{}: expected NAME=VALUE, got '{}'", option, text);
  }
  return std::pair(text.substr(0, equals), text.substr(equals + 1));
}

base::Result<void> resolve_task_weights(const std::vector<std::string>& texts, Settings& settings) {
  if (texts.empty()) return {};
  settings.serving.feed.scorer.task_weights.clear();
  for (const std::string& text : texts) {
    SF_ASSIGN(const auto pair, split_pair("--serving.task_weight", text));
    double weight = 0;
    const char* end = pair.second.data() + pair.second.size();
    if (std::from_chars(pair.second.data(), end, weight).ptr != end || pair.second.empty()) {
      return fail(ErrorCode::kInvalidArgument,
                  "--serving.task_weight {}: expected a number, got '{}'", pair.first, pair.second);
    }
    const auto& tasks = settings.model.tasks;
    if (std::find(tasks.begin(), tasks.end(), pair.first) == tasks.end()) {
      return fail(ErrorCode::kInvalidArgument,
                  "--serving.task_weight: there is no task {}, only {}", pair.first,
                  fmt::join(tasks, ", "));
    }
    settings.serving.feed.scorer.task_weights.push_back({pair.first, weight});
  }
  return {};
}

base::Result<void> resolve_action_windows(const std::vector<std::string>& texts,
                                          Settings& settings) {
  if (texts.empty()) return {};
  settings.features.join.action_windows.clear();
  for (const std::string& text : texts) {
    SF_ASSIGN(const auto pair, split_pair("--features.action_window_ms", text));
    features::ActionWindow window{pair.first, 0};
    const char* end = pair.second.data() + pair.second.size();
    if (std::from_chars(pair.second.data(), end, window.window_ms).ptr != end ||
        pair.second.empty()) {
      return fail(ErrorCode::kInvalidArgument,
                  "--features.action_window_ms {}: expected milliseconds, got '{}'", pair.first,
                  pair.second);
    }
    settings.features.join.action_windows.push_back(std::move(window));
  }
  return {};
}

/// The towers' names, and which features the transformer reads besides them.
base::Result<void> take_towers(Settings& settings) {
  model::ModelConfig& model = settings.model;
  const std::string towers = settings.towers == "none" ? "" : settings.towers;
  model.towers.clear();
  for (std::size_t begin = 0; begin < towers.size();) {
    const std::size_t end = std::min(towers.find(',', begin), towers.size());
    model.towers.push_back(towers.substr(begin, end - begin));
    begin = end + 1;
  }
  model.tower_tasks.clear();
  if (!model.towers.empty()) model.tower_tasks = settings.tower_tasks;
  if (settings.tower_tasks == Settings{}.tower_tasks) {
    // The default names tasks that a deployment need not have; others are checked with the model.
    std::erase_if(model.tower_tasks, [&](const std::string& task) {
      return std::find(model.tasks.begin(), model.tasks.end(), task) == model.tasks.end();
    });
    if (!model.towers.empty() && model.tower_tasks.empty()) {
      return base::fail(base::ErrorCode::kInvalidArgument,
                        "--model.tower_tasks: expected some of the tasks {}, got {}",
                        fmt::join(model.tasks, ", "), fmt::join(settings.tower_tasks, ", "));
    }
  }
  model.context_names = features::context_feature_names(settings.features.context);
  model.tower_context_names.clear();
  if (settings.features.context.extended && !model.towers.empty()) {
    // The extended set is for the towers; without any the transformer reads it too.
    model.context_names = features::base_context_names(settings.features.context);
    model.tower_context_names = features::extended_context_names();
  }
  return {};
}

base::Result<void> take_learning(Settings& settings) {
  trainer::OptimizerConfig& optimizer = settings.trainer.step.optimizer;
  SF_ASSIGN(optimizer.dense_rate_schedule,
            trainer::parse_rate_schedule(settings.dense_rate_schedule));
  SF_ASSIGN(optimizer.calibration, trainer::parse_calibration(settings.calibration));
  const bool isotonic = optimizer.calibration == trainer::CalibrationKind::kIsotonic;
  settings.model.isotonic_knots = isotonic ? trainer::kIsotonicKnots : 0;
  return {};
}

}  // namespace

std::string Settings::models_dir() const { return models.empty() ? data_dir + "/models" : models; }

model::ModelStoreConfig Settings::model_store() const {
  return {.dir = models_dir(),
          .keep_max = models_keep_max,
          .full_interval = models_full_interval,
          .full_share = models_full_share};
}

base::Result<void> Settings::kafka_required() const {
  if (!brokers.empty()) return {};
  return fail(
      ErrorCode::kInvalidArgument,
      "--brokers HOST:PORT is needed (or SIRENFEED_BROKERS, or `brokers` in the TOML file)");
}

ingest::TopicsConfig Settings::topics_config() const {
  ingest::TopicsConfig config = topics;
  config.partitions = partitions;
  return config;
}

base::Result<void> Settings::resolve() {
  if (clock != "wall" && clock != "event") {
    return fail(ErrorCode::kInvalidArgument, "--clock: expected wall or event, got '{}'", clock);
  }
  SF_TRY(split_address(http, serving.http));
  if (fsync != "always" && fsync != "interval" && fsync != "never") {
    return fail(ErrorCode::kInvalidArgument,
                "--log.fsync: expected always, interval or never, got '{}'", fsync);
  }
  embedded.fsync = fsync == "always"     ? ingest::FsyncPolicy::kAlways
                   : fsync == "interval" ? ingest::FsyncPolicy::kInterval
                                         : ingest::FsyncPolicy::kNever;
  embedded.dir = log_dir();
  embedded.partitions = partitions;
  kafka.brokers = brokers;
  for (const std::string& property : kafka_properties) {
    SF_ASSIGN(const auto pair, split_pair("--kafka.property", property));
    kafka.properties[pair.first] = pair.second;
  }
  ingest.parser.check_future = clock_kind() == ClockKind::kWall;
  serving.api.parser = ingest.parser;
  ingest.idle_flush_after = optional_ms(idle_flush_after_ms);
  trainer.batch_linger = optional_ms(batch_linger_ms);
  SF_TRY(take_learning(*this));
  // More threads than cores gain nothing, and TBB warns of them.
  trainer.step.threads =
      std::min(trainer.step.threads, static_cast<std::size_t>(tbb::info::default_concurrency()));
  trainer.checkpoint_file = trainer_dir() + "/checkpoint";
  features.store.dir = state_dir();
  features.context.zone_offset_ms = model.zone_offset_ms;

  SF_ASSIGN(model.variant, model::parse_variant(variant));
  model.seed = seed;
  model.actions = features.example.actions;
  model.tasks = features::task_names(features.example);
  SF_TRY(take_towers(*this));
  model.context_surfaces = features.context.surfaces;
  model.history_max = static_cast<int>(features.example.history_max);
  if (attention_scale != 0) {
    model.attention_scale = attention_scale;
  } else if (model.heads > 0 && model.d_model >= model.heads) {  // else validate() says it
    model.attention_scale = 1.0 / std::sqrt(static_cast<double>(model.head_width()));
  }
  const auto history_kind = model::parse_history_kind(model_history);
  if (!history_kind) {
    return fail(ErrorCode::kInvalidArgument,
                "--model.history: expected exposures or actions, got '{}'", model_history);
  }
  model.history_kind = *history_kind;
  features.example.history_actions_only = model.history_kind == model::HistoryKind::kActions;
  trainer.step.loss.task_weights.clear();
  for (const features::TaskConfig& task : features.example.tasks) {
    trainer.step.loss.task_weights.push_back(task.weight);
  }
  SF_TRY(resolve_task_weights(task_weights, *this));
  SF_TRY(resolve_action_windows(action_windows, *this));

  if (!brokers.empty()) SF_TRY(named_as_option(kafka.validate(), "kafka"));
  SF_TRY(named_as_option(ingest.validate(), "ingest"));
  SF_TRY(named_as_option(features.validate(), "features"));
  SF_TRY(named_as_option(relay.validate(), "features"));
  SF_TRY(named_as_option(model.validate(), "model"));
  SF_TRY(named_as_option(model_store().validate(), "model"));
  SF_TRY(named_as_option(trainer.validate(), "trainer"));
  SF_TRY(named_as_option(trainer.step.loss.validate(model.tasks.size()), "trainer"));
  SF_TRY(named_as_option(serving.validate(), "serving"));
  SF_TRY(named_as_option(world.validate(), "simulate"));
  return named_as_option(simulator.validate(), "simulate");
}

}  // namespace sirenfeed::app
