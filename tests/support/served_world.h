#pragma once
// Everything that answers a request, over a log in memory: real state in a temporary folder, real
// ingest, a model store, and the HTTP server on a free port of 127.0.0.1.
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "base/metrics.h"
#include "features/context_features.h"
#include "features/feature_state.h"
#include "ingest/event_json.h"
#include "ingest/ingest_loop.h"
#include "model/cross_tower.h"
#include "model/model_store.h"
#include "serving/api.h"
#include "serving/feed_service.h"
#include "serving/http_server.h"
#include "serving/model_slot.h"
#include "serving/request_log.h"
#include "tests/fakes/memory_log.h"

namespace sirenfeed::test {

inline constexpr base::UnixMs kWorldStart = 1'700'000'000'000;

inline std::filesystem::path fresh_dir(const std::string& name) {
  static std::atomic<int> number = 0;
  const auto dir = std::filesystem::temp_directory_path() /
                   ("sirenfeed_" + name + "_" + std::to_string(::getpid()) + "_" +
                    std::to_string(number.fetch_add(1)));
  std::filesystem::remove_all(dir);
  std::filesystem::create_directories(dir);
  return dir;
}

struct WorldOptions {
  serving::ServingConfig serving;
  ingest::Partition partitions = 2;
  bool http = false;
  std::vector<std::string> towers;  // of the published models; a cross tower is half full
};

class ServedWorld {
 public:
  explicit ServedWorld(WorldOptions world_options = {})
      : options(std::move(world_options)),
        dir(fresh_dir("world")),
        clock(kWorldStart),
        log(options.partitions),
        features_probe(registry),
        ingest_probe(registry),
        probe(registry) {
    features_config.partitions = options.partitions;
    features_config.store.dir = (dir / "state").string();
    features::StateWiring wiring;
    wiring.clock = &clock;
    state = *features::FeatureState::open(features_config, features_probe, wiring);
    ingest::IngestConfig ingest_config;
    ingest_config.poll_wait = std::chrono::milliseconds(1);
    ingest_config.parser.check_future = false;
    loop = std::make_unique<ingest::IngestLoop>(
        ingest_config, ingest::IngestLoop::Parts{log, *state, clock, steady, ingest_probe});
    SF_CHECK(loop->start());
    models =
        std::make_unique<serving::ModelSlot>(options.serving.model, models_dir(), clock, probe);
    writer = *log.open_writer("test");
    requests = std::make_unique<serving::RequestLog>(serving::RequestLogConfig{}, *writer,
                                                     options.partitions, probe);
    feeds = std::make_unique<serving::FeedService>(
        options.serving.feed,
        serving::FeedService::Parts{clock, state->reader(), *models, requests.get(), probe});
    if (options.http) start_http();
  }

  ~ServedWorld() {
    if (server) server->stop();
    if (api) api->stop();
    requests->stop();
    models->stop();
    loop->stop();
    loop.reset();
    state.reset();
    std::filesystem::remove_all(dir);
  }

  [[nodiscard]] std::string models_dir() const { return (dir / "models").string(); }

  void start_http() {
    serving::ApiParts parts{registry, probe};
    parts.feeds = feeds.get();
    parts.models = models.get();
    parts.features = &state->reader();
    parts.clock = &clock;
    parts.events = writer.get();
    parts.partitions = options.partitions;
    parts.readiness = [this] { return readiness; };
    parts.applied = [this](ingest::TopicPartition source, ingest::Offset offset) {
      const auto next = loop->state().next_offsets;
      const auto found = next.find(source);
      return found != next.end() && found->second > offset;
    };
    parts.lag_events = [this] { return lag_events.load(); };
    parts.close_windows = [this] { return loop->close_windows().get(); };
    parts.removed = [this](ingest::TopicPartition source, ingest::Offset offset) {
      return state->removed_by(source, offset);
    };
    parts.copies_left = {"backups made before: until they are deleted"};
    parts.backup = [this](const std::string& dir) { return state->backup_to(dir + "/state"); };
    parts.owner_token = "the token of this folder";
    api = std::make_unique<serving::Api>(options.serving.api, std::move(parts));
    serving::HttpConfig http = options.serving.http;
    http.port = 0;
    auto started = serving::HttpServer::start(http, api->router(), probe);
    SF_CHECK(started);
    server = *std::move(started);
  }

  /// Appends the events and waits until the state has applied them.
  void publish(const std::vector<ingest::EventBody>& events) {
    for (const ingest::EventBody& event : events) {
      const ingest::Topic topic = ingest::event_topic(event);
      const std::string& key = ingest::event_key(event);
      const ingest::Partition partition =
          topic == ingest::Topic::kItems ? 0 : ingest::partition_of(key, options.partitions);
      log.put({topic, partition}, key, ingest::event_json(event), ingest::event_time_ms(event));
    }
    wait_applied();
  }

  void wait_applied() {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (std::chrono::steady_clock::now() < end) {
      if (all_applied()) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    SF_CHECK(!"the state catches up");
  }

  bool all_applied() {
    const auto next = loop->state().next_offsets;
    for (const ingest::Topic topic :
         {ingest::Topic::kItems, ingest::Topic::kUsers, ingest::Topic::kRequests,
          ingest::Topic::kImpressions, ingest::Topic::kClicks}) {
      const ingest::Partition partitions = *log.partitions(topic);
      for (ingest::Partition p = 0; p < partitions; ++p) {
        const auto found = next.find({topic, p});
        const ingest::Offset applied = found == next.end() ? 0 : found->second;
        if (applied < log.bounds({topic, p})->next) return false;
      }
    }
    return true;
  }

  static ingest::ItemUpdate item(const std::string& id, const std::string& author = "",
                                 const std::string& tag = "",
                                 base::UnixMs published = kWorldStart - 60'000) {
    ingest::ItemUpdate update;
    update.item_id = id;
    update.time_ms = published;
    update.published_at_ms = published;
    if (!author.empty()) update.author_id = author;
    if (!tag.empty()) update.tags = {tag};
    return update;
  }

  /// Items i0 … i(n-1): five authors, four topics, one a second apart.
  void publish_items(int n) {
    std::vector<ingest::EventBody> events;
    for (int i = 0; i < n; ++i) {
      const std::string number = std::to_string(i);
      ingest::ItemUpdate update =
          item("i" + number, "author" + std::to_string(i % 5), "topic" + std::to_string(i % 4),
               kWorldStart - 600'000 + i * 1000);
      update.title = "Item " + number;
      events.emplace_back(std::move(update));
    }
    publish(events);
  }

  static ingest::Impression impression(const std::string& user,
                                       const std::vector<std::string>& items,
                                       base::UnixMs time_ms) {
    ingest::Impression shown;
    shown.impression_id = user + "-" + std::to_string(time_ms);
    shown.user_id = user;
    shown.time_ms = time_ms;
    for (const std::string& id : items) {
      ingest::ShownItem item;
      item.item_id = id;
      shown.items.push_back(item);
    }
    return shown;
  }

  static ingest::Action action(const std::string& user, const std::string& item,
                               base::UnixMs time_ms, const std::string& type = "click") {
    ingest::Action act;
    act.user_id = user;
    act.item_id = item;
    act.time_ms = time_ms;
    act.type = type;
    return act;
  }

  /// A model of this world's features whose parameters are seeded noise.
  [[nodiscard]] model::Model noisy_model(std::uint64_t seed) const {
    model::ModelConfig config;
    config.context_names = features::context_feature_names(features_config.context);
    config.context_surfaces = features_config.context.surfaces;
    config.time_reference_ms = kWorldStart;
    config.seed = seed;
    config.towers = options.towers;
    model::Model model = *model::make_model(config);
    std::mt19937_64 random(seed);
    std::normal_distribution<float> noise(0, 0.05F);
    for (float& value : model.dense) value += noise(random);
    constexpr std::size_t kCrossRows = std::size_t{1} << (model::kCrossBits - 1);
    while (model.cross.width() > 0 && model.cross.size() < kCrossRows) {
      const model::Key key = random() >> (64U - model::kCrossBits);
      for (float& weight : model.cross.row_at(model.cross.find_or_create(key))) {
        weight = noise(random);
      }
    }
    return model;
  }

  /// Publishes into the store and swaps it in.
  std::uint64_t publish_model(std::uint64_t seed) {
    if (!store) {
      model::ModelStoreConfig config;
      config.dir = models_dir();
      store.emplace(*model::ModelStoreWriter::open(config));
    }
    const auto version =
        store->publish(noisy_model(seed), kWorldStart, R"({"click":{"ne":0.9,"auc":0.7}})");
    SF_CHECK(version);
    const auto swapped = models->poll_once();
    SF_CHECK(swapped);
    return *version;
  }

  [[nodiscard]] std::uint16_t port() const { return server->port(); }

  const WorldOptions options;
  const std::filesystem::path dir;
  base::EventClock clock;
  base::SteadyClock steady;
  fakes::MemoryLog log;
  base::MetricsRegistry registry;
  features::FeaturesProbe features_probe;
  ingest::IngestProbe ingest_probe;
  serving::ServingProbe probe;
  features::FeaturesConfig features_config;
  std::unique_ptr<features::FeatureState> state;
  std::unique_ptr<ingest::IngestLoop> loop;
  std::unique_ptr<serving::ModelSlot> models;
  std::optional<model::ModelStoreWriter> store;
  std::unique_ptr<ingest::LogWriter> writer;
  std::unique_ptr<serving::RequestLog> requests;
  std::unique_ptr<serving::FeedService> feeds;
  serving::Readiness readiness{.ready = true, .reasons = {}, .lag_events = 0};
  std::atomic<std::int64_t> lag_events = 0;
  std::unique_ptr<serving::Api> api;
  std::unique_ptr<serving::HttpServer> server;
};

}  // namespace sirenfeed::test
