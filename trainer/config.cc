#include "trainer/config.h"

#include <cmath>

namespace sirenfeed::trainer {

namespace {

using base::ErrorCode;
using base::fail;

struct Bounded {
  const char* name;
  double value;
  double min;
  double max;
};

base::Result<void> check(std::initializer_list<Bounded> fields) {
  for (const Bounded& field : fields) {
    if (!(field.value >= field.min && field.value <= field.max)) {
      return fail(ErrorCode::kInvalidArgument, "{} is {}, expected {} to {}", field.name,
                  field.value, field.min, field.max);
    }
  }
  return {};
}

}  // namespace

const char* rate_schedule_name(RateSchedule schedule) noexcept {
  switch (schedule) {
    case RateSchedule::kConstant:
      return "constant";
    case RateSchedule::kWarmupCosine:
      return "warmup_cosine";
    case RateSchedule::kInverseSqrt:
      return "inverse_sqrt";
  }
  return "unknown";
}

base::Result<RateSchedule> parse_rate_schedule(std::string_view name) {
  for (const RateSchedule schedule :
       {RateSchedule::kConstant, RateSchedule::kWarmupCosine, RateSchedule::kInverseSqrt}) {
    if (name == rate_schedule_name(schedule)) return schedule;
  }
  return fail(
      ErrorCode::kInvalidArgument,
      "trainer.dense_rate_schedule is '{}', expected constant, warmup_cosine or inverse_sqrt",
      name);
}

const char* calibration_name(CalibrationKind kind) noexcept {
  switch (kind) {
    case CalibrationKind::kScaleBias:
      return "scale_bias";
    case CalibrationKind::kIsotonic:
      return "isotonic";
    case CalibrationKind::kNone:
      return "none";
  }
  return "unknown";
}

base::Result<CalibrationKind> parse_calibration(std::string_view name) {
  for (const CalibrationKind kind :
       {CalibrationKind::kScaleBias, CalibrationKind::kIsotonic, CalibrationKind::kNone}) {
    if (name == calibration_name(kind)) return kind;
  }
  return fail(ErrorCode::kInvalidArgument,
              "trainer.calibration is '{}', expected scale_bias, isotonic or none", name);
}

base::Result<void> TowerConfig::validate() const {
  return check({{"counter_rate", counter_rate, 0, 1},
                {"replay_batches", static_cast<double>(replay_batches), 0, 64},
                {"replay_bytes_max", static_cast<double>(replay_bytes_max), 1, 1e12},
                {"replay_admit_min", replay_admit_min, 0, 1},
                {"cross_rate", cross_rate, 0, 10},
                {"cross_g0", cross_g0, 1e-12, 1e12}});
}

base::Result<void> OptimizerConfig::validate() const {
  return check({{"dense_rate_steps", static_cast<double>(dense_rate_steps), 1, 4e9},
                {"dense_rate_floor", dense_rate_floor, 0.001, 1},
                {"isotonic_batches", static_cast<double>(isotonic_batches), 1, 1e6},
                {"isotonic_half_life_cells", isotonic_half_life_cells, 100, 1e12},
                {"dense_rate", dense_rate, 0, 1},
                {"beta1", beta1, 0, 0.99999},
                {"beta2", beta2, 0, 0.9999999},
                {"epsilon", epsilon, 1e-30, 1},
                {"clip_norm", clip_norm, 1e-12, 1e12},
                {"gradient_norm_max", gradient_norm_max, 1e-3, 1e18},
                {"row_rate", row_rate, 0, 10},
                {"row_epsilon", row_epsilon, 1e-30, 1},
                {"row_half_life_days", row_half_life_days, 1e-6, 1e9},
                {"calibration_rate", calibration_rate, 0, 10},
                {"calibration_g0", calibration_g0, 1e-12, 1e12}});
}

base::Result<void> StepConfig::validate() const {
  SF_TRY(optimizer.validate());
  SF_TRY(towers.validate());
  const auto count = [](std::size_t n) { return static_cast<double>(n); };
  return check({{"batch_examples", count(batch_examples), 1, 65'536},
                {"chunk_examples", count(chunk_examples), 1, 65'536},  // above the batch: one chunk
                {"threads", count(threads), 0, 1024},
                {"metric_window_cells", count(metric_window_cells), 1, 10'000'000},
                {"statistics_weight_min", statistics_weight_min, 0, 1},
                {"row_expiry_days", row_expiry_days, 0, 1e6},
                {"row_admission_examples", static_cast<double>(row_admission_examples), 1, 255},
                {"rows_max", static_cast<double>(rows_max), 16, 4e9}});
}

std::string StepConfig::canonical() const {
  std::string tasks;
  for (const double weight : loss.task_weights) tasks += fmt::format("{},", weight);
  const OptimizerConfig& o = optimizer;
  return fmt::format(
      "batch {} chunk {} adam {} {} {} {} warmup {} clip {} rows {} {} {} calibration {} {} tasks "
      "{} "
      "pairwise {} {} gates {} window {} statistics {} expiry {} schedule {} {} {} calibrate {} {} "
      "{} towers {} {} {} {} {} {} explosion {} admission {} rows_max {}",
      batch_examples, chunk_examples, o.dense_rate, o.beta1, o.beta2, o.epsilon, o.warmup_steps,
      o.clip_norm, o.row_rate, o.row_epsilon, o.row_half_life_days, o.calibration_rate,
      o.calibration_g0, tasks, loss.pairwise_weight, loss.pairwise_task, loss.gate_weight,
      metric_window_cells, statistics_weight_min, row_expiry_days,
      rate_schedule_name(o.dense_rate_schedule), o.dense_rate_steps, o.dense_rate_floor,
      calibration_name(o.calibration), o.isotonic_batches, o.isotonic_half_life_cells,
      towers.counter_rate, towers.replay_batches, towers.replay_bytes_max, towers.replay_admit_min,
      towers.cross_rate, towers.cross_g0, o.gradient_norm_max, row_admission_examples, rows_max);
}

base::Result<void> TrainLoopConfig::validate() const {
  SF_TRY(step.validate());
  const auto ms = [](std::chrono::milliseconds d) { return static_cast<double>(d.count()); };
  SF_TRY(check({{"publish_interval_ms", ms(publish_interval), 1, 86'400'000},
                {"checkpoint_interval_ms", ms(checkpoint_interval), 1, 86'400'000},
                {"poll_timeout_ms", ms(poll_timeout), 1, 60'000},
                {"retry_interval_ms", ms(retry_interval), 1, 600'000}}));
  if (batch_linger) SF_TRY(check({{"batch_linger_ms", ms(*batch_linger), 1, 86'400'000}}));
  return {};
}

}  // namespace sirenfeed::trainer
