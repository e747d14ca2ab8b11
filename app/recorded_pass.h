#pragma once
// A recorded input through ingest and features, without a broker and through the same classes as
// live traffic: the pass that `evaluate` predicts along and `train --from-log` learns from.
#include <cstdint>
#include <memory>
#include <string>

#include "app/settings.h"
#include "base/result.h"
#include "features/feature_reader.h"
#include "features/feature_state.h"
#include "ingest/replay_reader.h"

namespace sirenfeed::app {

struct RecordedInput {
  std::string file;
  ingest::ReplayFormat format = ingest::ReplayFormat::kEvents;
  ingest::ReplayOptions replay;
};

/// The state lies in a temporary folder that goes with the pass. Where the input is in time order
/// no action can be late, and no impression is retained for one. Threads: one.
class RecordedPass {
 public:
  /// `observer` outlives the pass; it is told of every exposure and example within run().
  static base::Result<std::unique_ptr<RecordedPass>> open(const RecordedInput& input,
                                                          const Settings& settings,
                                                          features::ExampleObserver& observer);
  ~RecordedPass();
  RecordedPass(const RecordedPass&) = delete;
  RecordedPass& operator=(const RecordedPass&) = delete;

  /// To the end of the input, where every window closes. Once.
  base::Result<void> run();
  /// Of the input, in [0, 1]; within the observer too. 0 where its size is not known.
  [[nodiscard]] double share_read() const;
  [[nodiscard]] std::uint64_t records_rejected() const;
  [[nodiscard]] const features::FeatureReader& reader() const;

 private:
  struct Impl;
  explicit RecordedPass(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace sirenfeed::app
