#pragma once
// Learns the served logits' scale and bias after the model, by Adagrad on scored examples.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/model.h"
#include "model/slate.h"
#include "trainer/config.h"

namespace sirenfeed::trainer {

/// One Adagrad step a batch and task, on the mean gradient of the batch's unmasked cells; a batch
/// without any for a task leaves it alone. Threads: one.
class Calibrator {
 public:
  Calibrator(std::size_t tasks, const OptimizerConfig& config);

  /// Adds the cells of one slate: z [C, K] as the model before the step scored them.
  void add(const model::Calibration& calibration, std::span<const float> z,
           const model::SlateLabels& labels);
  /// Ends the batch.
  void step(model::Calibration& calibration);

  void append_to(std::string& bytes) const;
  [[nodiscard]] base::Result<void> restore(std::string_view& bytes);

 private:
  struct Sums {
    double weight = 0;
    double d_scale = 0;
    double d_bias = 0;
  };
  double rate_;
  std::vector<Sums> batch_;      // a task; all 0 between batches
  std::vector<double> g_scale_;  // a task
  std::vector<double> g_bias_;
};

}  // namespace sirenfeed::trainer
