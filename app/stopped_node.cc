#include "app/stopped_node.h"

#include <filesystem>

#include "app/open_log.h"
#include "features/stored_state.h"

namespace sirenfeed::app {

using base::ErrorCode;
using base::fail;

namespace {

base::Result<std::unique_ptr<ingest::EventLog>> open_existing_log(const Settings& settings,
                                                                  const DataUse& use) {
  if (settings.brokers.empty() && !std::filesystem::exists(settings.log_dir() + "/LOG")) {
    return fail(ErrorCode::kNotFound,
                "{}: there is no embedded log here; with Kafka, give --brokers HOST:PORT",
                settings.log_dir());
  }
  return open_log(settings, use);
}

}  // namespace

StoppedNode::StoppedNode(const Settings& settings)
    : event_time_(settings.clock_kind() == ClockKind::kEvent),
      features_probe_(registry_),
      ingest_probe_(registry_) {}

base::Result<void> StoppedNode::open_state(features::FeaturesConfig config) {
  features::StateWiring wiring;
  wiring.event_clock = &event_clock_;
  wiring.clock = &clock();
  wiring.steady = &steady_;
  SF_ASSIGN(state_, features::FeatureState::open(std::move(config), features_probe_, wiring));
  return {};
}

base::Result<std::unique_ptr<StoppedNode>> StoppedNode::open(const Settings& settings, Log log) {
  auto node = std::unique_ptr<StoppedNode>(new StoppedNode(settings));
  SF_ASSIGN(DataUse use, DataUse::share(settings.data_dir));
  node->use_.emplace(std::move(use));
  // A store knows its own number of partitions, whatever the topics of this run would have.
  SF_ASSIGN(const features::StoredState stored,
            features::read_stored_state(settings.features.store));
  if (log != Log::kNone) {
    Settings known = settings;
    known.embedded.partitions = stored.format.partitions;
    SF_ASSIGN(node->log_, open_existing_log(known, *node->use_));
  }
  features::FeaturesConfig config = settings.features;
  config.partitions = stored.format.partitions;
  SF_TRY(node->open_state(std::move(config)));
  return node;
}

base::Result<std::unique_ptr<StoppedNode>> StoppedNode::open_for_rebuild(
    const Settings& settings, const DataUse& use, const std::string& state_dir) {
  auto node = std::unique_ptr<StoppedNode>(new StoppedNode(settings));
  SF_ASSIGN(node->log_, open_existing_log(settings, use));
  features::FeaturesConfig config = settings.features;
  config.store.dir = state_dir;
  SF_ASSIGN(config.partitions, node->log_->partitions(ingest::Topic::kImpressions));
  SF_TRY(node->open_state(std::move(config)));
  return node;
}

void StoppedNode::close() {
  state_.reset();
  log_.reset();
}

}  // namespace sirenfeed::app
