#pragma once
// Everything that can be configured, parsed once from options, TOML file and environment. Each
// folder's structs are filled as they are; classes get only their own.
#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "app/simulated_world.h"
#include "app/simulator.h"
#include "base/log.h"
#include "base/result.h"
#include "features/features_config.h"
#include "features/outbox_relay.h"
#include "ingest/embedded_log.h"
#include "ingest/ingest_loop.h"
#include "ingest/kafka_config.h"
#include "ingest/topics_admin.h"
#include "model/config.h"
#include "model/model_store.h"
#include "serving/config.h"
#include "serving/request_log.h"
#include "trainer/config.h"

namespace sirenfeed::app {

enum class ClockKind { kWall, kEvent };

struct Settings {
  // what most commands share
  std::string data_dir = "data";
  std::string models;  // folder of the model store; "": models in data_dir
  std::string http = "127.0.0.1:8080";
  std::string brokers;  // "": the embedded log in data_dir
  std::string clock = "wall";
  std::int32_t partitions = 4;  // of a new embedded log, and of `topics create`
  std::uint64_t seed = 1;       // of the model's start
  std::string log_level = "info";
  bool log_json = false;

  ingest::IngestConfig ingest;
  ingest::EmbeddedLogConfig embedded;
  ingest::KafkaConfig kafka;
  ingest::TopicsConfig topics;
  features::FeaturesConfig features;
  features::OutboxRelayConfig relay;
  model::ModelConfig model;
  std::string variant = "siren";
  double attention_scale = 0;                                     // 0: 1/√d_k
  std::string model_history = "exposures";                        // or actions
  std::vector<std::string> tower_tasks = {"click", "long_view"};  // what the counters count
  std::string towers;  // beside the transformer, comma separated: counter, cross
  std::size_t models_keep_max = 20;
  std::chrono::milliseconds models_full_interval{60'000};
  double models_full_share = 1.0;
  trainer::TrainLoopConfig trainer;
  serving::ServingConfig serving;
  serving::RequestLogConfig requests;
  std::uint64_t ready_lag_events_max = 100'000;  // further behind: /readyz says no
  WorldConfig world;
  SimulatorConfig simulator;

  // as they are spelled on the command line
  std::string fsync = "interval";
  std::vector<std::string> kafka_properties;  // key=value
  std::vector<std::string> task_weights;      // task=weight
  std::vector<std::string> action_windows;    // ACTION=MS
  std::string dense_rate_schedule = "constant";
  std::string calibration = "scale_bias";
  std::int64_t idle_flush_after_ms = 10'000;  // -1: off
  std::int64_t batch_linger_ms = 2'000;       // -1: off

  /// Puts derived values in place (folders, the model's feature and task names, what the clock
  /// implies) and validates everything. Call once, before a command reads a struct.
  [[nodiscard]] base::Result<void> resolve();

  [[nodiscard]] ClockKind clock_kind() const {
    return clock == "event" ? ClockKind::kEvent : ClockKind::kWall;
  }
  [[nodiscard]] std::string models_dir() const;
  [[nodiscard]] model::ModelStoreConfig model_store() const;
  [[nodiscard]] std::string state_dir() const { return data_dir + "/state"; }
  [[nodiscard]] std::string log_dir() const { return data_dir + "/log"; }
  [[nodiscard]] std::string trainer_dir() const { return data_dir + "/trainer"; }
  /// kInvalidArgument, naming --brokers, where none are given.
  [[nodiscard]] base::Result<void> kafka_required() const;
  [[nodiscard]] ingest::TopicsConfig topics_config() const;
};

}  // namespace sirenfeed::app
