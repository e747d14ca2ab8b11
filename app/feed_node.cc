#include "app/feed_node.h"

#include <atomic>
#include <condition_variable>
#include <filesystem>
#include <future>
#include <mutex>
#include <optional>
#include <random>
#include <thread>

#include "app/backup.h"
#include "app/copies_left.h"
#include "app/run_file.h"
#include "base/log.h"
#include "features/align_examples.h"
#include "features/feature_state.h"
#include "features/log_coverage.h"
#include "features/outbox_relay.h"
#include "ingest/ingest_loop.h"
#include "ingest/reopening_writer.h"
#include "model/model_store.h"
#include "serving/api.h"
#include "serving/feed_service.h"
#include "serving/http_server.h"
#include "serving/model_slot.h"
#include "serving/request_log.h"
#include "serving/request_record.h"

namespace sirenfeed::app {

using base::ErrorCode;
using base::fail;

namespace {

constexpr std::chrono::milliseconds kLagInterval{1000};
constexpr std::chrono::milliseconds kDrainAtStop{2000};
constexpr std::chrono::milliseconds kStopLook{100};

/// 128 bits that nobody guesses.
std::string random_token() {
  std::random_device device;
  std::string token;
  for (int i = 0; i < 4; ++i) token += fmt::format("{:08x}", device());
  return token;
}

}  // namespace

// Members are in construction order; they stop and die in reverse.
struct FeedNode::Impl {
  Impl(const Settings& settings_in, ingest::EventLog& log_in, base::MetricsRegistry& registry)
      : settings(settings_in),
        log(log_in),
        ingest_probe(registry),
        features_probe(registry),
        serving_probe(registry) {}

  base::Result<void> open_state();
  base::Result<void> start_ingest();
  base::Result<void> start_serving(base::MetricsRegistry& registry);
  void watch_lag(const std::stop_token& stop);
  [[nodiscard]] serving::Readiness readiness() const;
  [[nodiscard]] const base::Clock& clock() const {
    return settings.clock_kind() == ClockKind::kEvent ? static_cast<const base::Clock&>(event_clock)
                                                      : wall_clock;
  }
  /// Waits until the windows are closed, or the node is being stopped: a handler that goes on
  /// waiting would keep the server, and with it the loop, from ending.
  base::Result<void> close_windows();
  void stop();

  const Settings& settings;
  ingest::EventLog& log;
  base::WallClock wall_clock;
  base::EventClock event_clock;
  base::SteadyClock steady_clock;
  ingest::IngestProbe ingest_probe;
  features::FeaturesProbe features_probe;
  serving::ServingProbe serving_probe;
  ingest::Partition partitions = 1;
  std::unique_ptr<features::FeatureState> state;
  std::unique_ptr<features::OutboxRelay> relay;
  std::unique_ptr<ingest::IngestLoop> loop;
  std::atomic<std::int64_t> lag_events{0};
  std::unique_ptr<serving::ModelSlot> models;
  std::unique_ptr<ingest::ReopeningWriter> events;
  std::unique_ptr<ingest::ReopeningWriter> requests_writer;
  std::unique_ptr<serving::RequestLog> requests;
  std::unique_ptr<serving::FeedService> feeds;
  std::unique_ptr<serving::Api> api;
  std::unique_ptr<serving::HttpServer> server;
  std::optional<RunFile> run_file;
  std::jthread lag_watch;
  std::atomic<bool> stopping{false};
  mutable std::atomic<bool> caught_up_once{false};
};

base::Result<void> FeedNode::Impl::open_state() {
  std::error_code error;
  std::filesystem::create_directories(settings.data_dir, error);
  if (error) {
    return fail(ErrorCode::kStorage, "{}: the data folder cannot be made: {}", settings.data_dir,
                error.message());
  }
  SF_ASSIGN(partitions, log.partitions(ingest::Topic::kImpressions));
  features::FeaturesConfig config = settings.features;
  config.partitions = partitions;
  features::StateWiring wiring;
  wiring.event_clock = &event_clock;
  wiring.clock = &clock();
  wiring.steady = &steady_clock;
  SF_ASSIGN(state, features::FeatureState::open(config, features_probe, wiring));
  relay =
      std::make_unique<features::OutboxRelay>(settings.relay, state->outbox(), log, features_probe);
  return {};
}

base::Result<void> FeedNode::Impl::start_ingest() {
  // With Kafka, whose log may be shorter for reasons of its own, the partition alone is stopped.
  if (settings.brokers.empty()) SF_TRY(features::check_log_covers(*state, log));
  SF_TRY(features::align_examples(*state, log));
  ingest::IngestConfig config = settings.ingest;
  if (settings.brokers.empty()) {  // the embedded log has one reader: this process
    config.group.reset();
    config.member.reset();
  }
  loop = std::make_unique<ingest::IngestLoop>(
      config, ingest::IngestLoop::Parts{log, *state, clock(), steady_clock, ingest_probe});
  SF_TRY(loop->start());
  relay->start();
  lag_watch = std::jthread([this](const std::stop_token& stop) { watch_lag(stop); });
  return {};
}

base::Result<void> FeedNode::Impl::start_serving(base::MetricsRegistry& registry) {
  models = std::make_unique<serving::ModelSlot>(settings.serving.model, settings.models_dir(),
                                                wall_clock, serving_probe);
  models->start();
  events = std::make_unique<ingest::ReopeningWriter>(log, "sirenfeed-events");
  requests_writer = std::make_unique<ingest::ReopeningWriter>(log, "sirenfeed-requests");
  requests = std::make_unique<serving::RequestLog>(
      settings.requests, *requests_writer, partitions, serving_probe,
      [this](const serving::RequestRecord& record) {
        const auto erased = state->reader().erased_at(record.user_id);
        return !erased || (*erased && *erased != record.erased_ms);
      });
  feeds = std::make_unique<serving::FeedService>(
      settings.serving.feed, serving::FeedService::Parts{clock(), state->reader(), *models,
                                                         requests.get(), serving_probe});
  serving::ApiParts parts{registry, serving_probe};
  parts.feeds = feeds.get();
  parts.models = models.get();
  parts.features = &state->reader();
  parts.clock = &clock();
  parts.events = events.get();
  parts.partitions = partitions;
  SF_ASSIGN(parts.item_partitions, log.partitions(ingest::Topic::kItems));
  parts.readiness = [this] { return readiness(); };
  parts.applied = [this](ingest::TopicPartition source, ingest::Offset offset) {
    const auto next = loop->state().next_offsets;
    const auto found = next.find(source);
    return found != next.end() && found->second > offset;
  };
  parts.lag_events = [this] { return lag_events.load(); };
  parts.close_windows = [this] { return close_windows(); };
  parts.removed = [this](ingest::TopicPartition source, ingest::Offset offset) {
    return state->removed_by(source, offset);
  };
  parts.forget_requests = [this](const std::string& user) { return requests->forget(user); };
  parts.copies_left = copies_left(settings);
  parts.backup = [this](const std::string& dir) {
    return back_up_owned(*state, settings.brokers.empty() ? &log : nullptr, settings.log_dir(),
                         dir);
  };
  const std::string token = random_token();
  parts.owner_token = token;
  api = std::make_unique<serving::Api>(settings.serving.api, std::move(parts));
  SF_ASSIGN(server,
            serving::HttpServer::start(settings.serving.http, api->router(), serving_probe));
  SF_ASSIGN(RunFile file, RunFile::write(settings.data_dir, server->url(), token));
  run_file.emplace(std::move(file));
  return {};
}

base::Result<void> FeedNode::Impl::close_windows() {
  std::future<base::Result<void>> closed = loop->close_windows();
  while (closed.wait_for(kStopLook) != std::future_status::ready) {
    if (stopping) return fail(ErrorCode::kClosed, "the node is being stopped");
  }
  return closed.get();
}

void FeedNode::Impl::watch_lag(const std::stop_token& stop) {
  std::mutex mutex;
  std::condition_variable_any wake;
  while (!stop.stop_requested()) {
    if (const auto lag = loop->measure_lag()) lag_events = static_cast<std::int64_t>(*lag);
    std::unique_lock lock(mutex);
    wake.wait_for(lock, stop, kLagInterval, [] { return false; });
  }
}

serving::Readiness FeedNode::Impl::readiness() const {
  const ingest::IngestState ingest_state = loop->state();
  serving::Readiness readiness;
  readiness.lag_events = lag_events;
  const bool has_model = models != nullptr && models->current() != nullptr;
  const bool too_far_behind =
      readiness.lag_events > static_cast<std::int64_t>(settings.ready_lag_events_max);
  // After the first time a node that gets its partitions anew is degraded, not unready.
  if (ingest_state.caught_up) caught_up_once = true;
  readiness.ready = caught_up_once && has_model && !too_far_behind;
  auto& reasons = readiness.reasons;
  if (!ingest_state.caught_up) reasons.emplace_back("catching_up: input is still being read");
  if (!has_model) reasons.emplace_back("no_model: no version was published yet");
  if (too_far_behind) reasons.emplace_back("lag: more events behind than ready_lag_events_max");
  if (ingest_state.broker_lost) reasons.emplace_back("broker_lost: no broker answers");
  if (ingest_state.input_error) reasons.push_back("log: " + ingest_state.input_error->message);
  if (ingest_state.sink_error) reasons.push_back("state: " + ingest_state.sink_error->message);
  for (const auto& [source, error] : ingest_state.stopped) {
    reasons.push_back(fmt::format("stopped {}/{}: {}", ingest::topic_name(source.topic),
                                  source.partition, error.message));
  }
  if (const std::string error = relay->last_error(); !error.empty()) {
    reasons.push_back("outbox: " + error);
  }
  return readiness;
}

void FeedNode::Impl::stop() {
  stopping = true;
  log.stop_waiting();
  run_file.reset();
  if (server) server->stop();
  if (api) api->stop();
  if (requests) requests->stop();
  if (models) models->stop();
  if (lag_watch.joinable()) {
    lag_watch.request_stop();
    lag_watch.join();
  }
  if (loop) loop->stop();
  if (relay && loop) {
    if (const auto drained = relay->drain(kDrainAtStop); !drained) {
      base::log_warning("{}; it is sent after the next start", drained.error().message);
    }
    relay->stop();
  }
}

base::Result<std::unique_ptr<FeedNode>> FeedNode::start(const Settings& settings,
                                                        ingest::EventLog& log,
                                                        base::MetricsRegistry& registry) {
  auto impl = std::make_unique<Impl>(settings, log, registry);
  // From here on ~FeedNode stops what was started, also when a later step fails.
  std::unique_ptr<FeedNode> node(new FeedNode(std::move(impl)));
  SF_TRY(node->impl_->open_state());
  SF_TRY(node->impl_->start_ingest());
  SF_TRY(node->impl_->start_serving(registry));
  return node;
}

FeedNode::FeedNode(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
FeedNode::~FeedNode() { stop(); }
void FeedNode::stop() { impl_->stop(); }
std::string FeedNode::url() const { return impl_->server->url(); }

}  // namespace sirenfeed::app
