#pragma once
// Every hyperparameter of training. What scoring needs as well lies in model::ModelConfig.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "model/loss.h"

namespace sirenfeed::trainer {

struct OptimizerConfig {
  // Adam: dense tensors and action rows.
  double dense_rate = 1e-3;  // at batch 64
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  std::uint32_t warmup_steps = 100;  // the rate grows linearly, then stays
  double clip_norm = 1.0;            // of all dense tensors together
  // Row-wise Adagrad with decay: embedding and semantic tables.
  double row_rate = 0.05;
  double row_epsilon = 1e-6;
  double row_half_life_days = 14;  // of G, in event time
  // Calibration of the served logits: Adagrad.
  double calibration_rate = 0.02;
  double calibration_g0 = 1.0;

  [[nodiscard]] base::Result<void> validate() const;
};

struct StepConfig {
  std::size_t batch_examples = 64;
  std::size_t chunk_examples = 8;  // fixed: the sums, hence the bytes, depend on it
  std::size_t threads = 0;         // 0: all cores; never changes a byte
  OptimizerConfig optimizer;
  model::LossConfig loss;
  std::size_t metric_window_cells = 20'000;  // newest progressive scores kept for each task
  double statistics_weight_min = 1e-5;       // of a new example in mean, std and action.mean

  /// Rows unseen for this long, in event time, return to their start; 0: never. Looked for once an
  /// event-time day.
  double row_expiry_days = 90;

  [[nodiscard]] base::Result<void> validate() const;
  /// One line that two runs must share to give the same bytes; its hash goes into checkpoints.
  [[nodiscard]] std::string canonical() const;
};

struct TrainLoopConfig {
  StepConfig step;
  std::string checkpoint_file;                            // empty: no checkpoints (tests only)
  std::chrono::milliseconds publish_interval{1000};       // by the steady clock
  std::size_t publish_examples = 0;                       // > 0: every N examples instead
  std::chrono::milliseconds checkpoint_interval{10'000};  // by the steady clock
  std::size_t checkpoint_examples = 0;                    // > 0: every N examples instead
  /// Learn an incomplete batch when the log was quiet for this long. Off: batches are cut by
  /// sequence number alone, which determinism needs.
  std::optional<std::chrono::milliseconds> batch_linger;
  bool until_end = false;  // stop at the log's end, after learning the incomplete batch
  std::chrono::milliseconds poll_timeout{100};
  std::chrono::milliseconds retry_interval{500};  // after an error of the log or the store

  [[nodiscard]] base::Result<void> validate() const;
};

}  // namespace sirenfeed::trainer
