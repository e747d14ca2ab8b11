#pragma once
// A trainer that begins with a recorded log: what `train --from-log` learns before the topic.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "model/model.h"
#include "trainer/checkpoint.h"
#include "trainer/config.h"
#include "trainer/example_decoder.h"
#include "trainer/online_trainer.h"

namespace sirenfeed::features {
class Example;
}

namespace sirenfeed::trainer {

/// Learns examples in the order in which they close, in the batches of `evaluate`, so that the
/// model is the one of `evaluate`, byte by byte. finish() leaves a checkpoint: model, optimiser,
/// metrics and the time of the newest exposure. TrainLoop goes on from there, in every partition of
/// topic examples with the first example whose exposure is later, whatever its sequence number:
/// what the log has taught is not taught again by a topic that overlaps it. The state (sequences,
/// counters) does not come along: it is that of `serve`, which reads its own topics.
///
/// Threads: one caller.
class WarmStart {
 public:
  static base::Result<std::unique_ptr<WarmStart>> create(const model::Model& start,
                                                         const StepConfig& config);

  /// The next closed example, corrections included.
  base::Result<void> learn(const features::Example& example);
  /// Learns the incomplete last batch and writes the checkpoint. Once.
  base::Result<void> finish(const std::string& checkpoint_file);

  [[nodiscard]] const OnlineTrainer& trainer() const { return *trainer_; }

 private:
  WarmStart(std::unique_ptr<OnlineTrainer> trainer, ExampleDecoder decoder);
  void learn_batch();

  std::unique_ptr<OnlineTrainer> trainer_;
  const ExampleDecoder decoder_;
  std::vector<DecodedExample> batch_;
  std::vector<const DecodedExample*> pointers_;
  base::UnixMs newest_ms_ = Learned::kNothingRecorded;
};

}  // namespace sirenfeed::trainer
