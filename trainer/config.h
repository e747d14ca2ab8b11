#pragma once
// Every hyperparameter of training. What scoring needs as well lies in model::ModelConfig.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"
#include "model/loss.h"

namespace sirenfeed::trainer {

/// What follows the warm-up of the dense rate.
enum class RateSchedule {
  kConstant,
  kWarmupCosine,  // half a cosine down to the floor over dense_rate_steps, then the floor
  kInverseSqrt,   // dense_rate_steps at the full rate, then √(dense_rate_steps/t), not below the
                  // floor
};
/// "constant", "warmup_cosine", "inverse_sqrt".
[[nodiscard]] const char* rate_schedule_name(RateSchedule schedule) noexcept;
[[nodiscard]] base::Result<RateSchedule> parse_rate_schedule(std::string_view name);

/// What turns the mean logit of the towers into the served one.
enum class CalibrationKind { kScaleBias, kIsotonic, kNone };
/// "scale_bias", "isotonic", "none".
[[nodiscard]] const char* calibration_name(CalibrationKind kind) noexcept;
[[nodiscard]] base::Result<CalibrationKind> parse_calibration(std::string_view name);

/// Knots of each task where the calibration is isotonic: a quarter of a logit apart.
inline constexpr int kIsotonicKnots = 65;

struct OptimizerConfig {
  // Adam: dense tensors and action rows.
  double dense_rate = 1e-3;  // at batch 64
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  std::uint32_t warmup_steps = 100;  // the rate grows linearly, then follows its schedule
  RateSchedule dense_rate_schedule = RateSchedule::kConstant;
  std::uint32_t dense_rate_steps = 10'000;  // see RateSchedule
  double dense_rate_floor = 0.1;            // share of dense_rate that is never left: a stream's
                                            // model must not stop learning
  double clip_norm = 1.0;                   // of all dense tensors together
  /// Above it, in a tower or in one element of a row's gradient too, a batch has exploded and is
  /// skipped: one such step would leave Adam's and Adagrad's sums of squares useless for long.
  double gradient_norm_max = 1e6;
  // Row-wise Adagrad with decay: embedding and semantic tables.
  double row_rate = 0.05;
  double row_epsilon = 1e-6;
  double row_half_life_days = 14;  // of G, in event time
  // Calibration of the served logits: Adagrad.
  double calibration_rate = 0.02;
  double calibration_g0 = 1.0;
  CalibrationKind calibration = CalibrationKind::kScaleBias;
  std::uint32_t isotonic_batches = 16;        // between two fits
  double isotonic_half_life_cells = 100'000;  // of a task, in the fit's histogram

  [[nodiscard]] base::Result<void> validate() const;
};

/// The towers beside the transformer; which there are is ModelConfig::towers.
struct TowerConfig {
  double counter_rate = 1e-3;        // Adam's
  std::uint32_t replay_batches = 2;  // as many rows as the batch has, drawn from the past, each
  std::size_t replay_bytes_max = std::size_t{16} << 20U;  // also of the checkpoint's part
  double replay_admit_min = 0.1;                          // see ReplayBuffer
  double cross_rate = 0.02;                               // Adagrad's
  double cross_g0 = 1.0;

  [[nodiscard]] base::Result<void> validate() const;
};

struct StepConfig {
  std::size_t batch_examples = 64;
  std::size_t chunk_examples = 8;  // fixed: the sums, hence the bytes, depend on it
  std::size_t threads = 0;         // 0: all cores; never changes a byte
  OptimizerConfig optimizer;
  model::LossConfig loss;
  TowerConfig towers;
  std::size_t metric_window_cells = 20'000;  // newest progressive scores kept for each task
  double statistics_weight_min = 1e-5;       // of a new example in mean, std and action.mean

  /// Rows unseen for this long, in event time, return to their start; 0: never. Looked for once an
  /// event-time day.
  double row_expiry_days = 90;
  /// A row is made when its key has been seen in this many examples, as candidate or in a history;
  /// until then its start value is used and nothing is learned for it. 1 to 255; 1: at once. The
  /// counts are estimates (count_sketch.h).
  std::uint32_t row_admission_examples = 1;
  /// Of each table. A full one evicts the rows unseen longest, a sixteenth at once.
  std::uint64_t rows_max = 2'000'000;

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
