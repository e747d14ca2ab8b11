#pragma once
// The state and the log of a data folder that no process uses: opened by a command for itself.
#include <memory>
#include <optional>

#include "app/data_use.h"
#include "app/settings.h"
#include "base/clock.h"
#include "base/metrics.h"
#include "base/result.h"
#include "features/feature_state.h"
#include "ingest/event_log.h"
#include "ingest/ingest_loop.h"
#include "ingest/ingest_probe.h"

namespace sirenfeed::app {

/// Threads: one.
class StoppedNode {
 public:
  enum class Log {
    kNone,      // log() may not be called
    kEmbedded,  // that of the data folder, which must be there
    kAny,       // the embedded one, or Kafka where --brokers is given
  };
  /// kNotFound: no state (or log) there; kLocked: a process uses it.
  static base::Result<std::unique_ptr<StoppedNode>> open(const Settings& settings, Log log);
  /// The state in `state_dir`, made where absent, for the topics that the log has.
  /// `use`, of the data folder, outlives the node.
  static base::Result<std::unique_ptr<StoppedNode>> open_for_rebuild(const Settings& settings,
                                                                     const DataUse& use,
                                                                     const std::string& state_dir);

  [[nodiscard]] features::FeatureState& state() { return *state_; }
  [[nodiscard]] ingest::EventLog& log() { return *log_; }
  [[nodiscard]] ingest::EventLog* log_or_null() { return log_.get(); }
  /// What a loop over this node reads and applies with; `sink` may stand before the state.
  [[nodiscard]] ingest::IngestLoop::Parts loop_parts(ingest::EventSink& sink) {
    return {*log_, sink, clock(), steady_, ingest_probe_};
  }
  [[nodiscard]] const base::Clock& clock() const {
    return event_time_ ? static_cast<const base::Clock&>(event_clock_) : wall_clock_;
  }
  /// Closes state and log.
  void close();

 private:
  explicit StoppedNode(const Settings& settings);
  base::Result<void> open_state(features::FeaturesConfig config);

  const bool event_time_;
  std::optional<DataUse> use_;  // its own, but for a rebuild
  base::WallClock wall_clock_;
  base::EventClock event_clock_;
  base::SteadyClock steady_;
  base::MetricsRegistry registry_;
  features::FeaturesProbe features_probe_;
  ingest::IngestProbe ingest_probe_;
  std::unique_ptr<ingest::EventLog> log_;  // null: kNone
  std::unique_ptr<features::FeatureState> state_;
};

}  // namespace sirenfeed::app
