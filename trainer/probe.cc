#include "trainer/probe.h"

#include <cmath>

#include "trainer/metric_window.h"
#include "trainer/online_trainer.h"

namespace sirenfeed::trainer {

namespace {
std::string name(const char* noun) { return std::string("sirenfeed_trainer_") + noun; }
}  // namespace

TrainerProbe::TrainerProbe(base::MetricsRegistry& registry, const std::vector<std::string>& tasks)
    : examples(registry.counter(name("examples_total"), "Examples learned.")),
      corrections(registry.counter(name("corrections_total"),
                                   "Examples learned that correct an earlier one.")),
      duplicates(registry.counter(name("duplicates_total"),
                                  "Examples that were learned before and skipped.")),
      recorded_before(registry.counter(
          name("recorded_before_total"),
          "Examples not learned because the recorded log covered their time (train --from-log)")),
      erased(registry.counter(name("erased_total"),
                              "Examples whose user was erased before they were sent.")),
      undecodable(registry.counter(name("undecodable_total"), "Records that are no example.")),
      gaps(registry.counter(name("gaps_total"),
                            "Partitions stopped because a sequence number is missing.")),
      batches(registry.counter(name("batches_total"), "Batches learned.")),
      batches_skipped(registry.counter(name("batches_skipped_total"),
                                       "Batches whose loss or gradient was not finite.")),
      published(registry.counter(name("published_total"), "Model versions published.")),
      publish_errors(
          registry.counter(name("publish_errors_total"), "Failures to publish a model.")),
      checkpoints(registry.counter(name("checkpoints_total"), "Checkpoints written.")),
      checkpoint_errors(
          registry.counter(name("checkpoint_errors_total"), "Failures to write a checkpoint.")),
      checkpoints_refused(registry.counter(name("checkpoints_refused_total"),
                                           "Checkpoints that could not be read at the start: "
                                           "damaged, or of another configuration.")),
      log_errors(registry.counter(name("log_errors_total"), "Errors of the log, retried.")),
      loss(registry.gauge(name("loss"), "Loss of the last batch.")),
      gradient_norm(
          registry.gauge(name("gradient_norm"), "Norm of the dense gradient of the last batch.")),
      rows(registry.gauge(name("rows"), "Rows of all embedding tables.")),
      rows_expired(registry.counter(name("rows_expired_total"),
                                    "Rows unseen for row_expiry_days and removed.")),
      rotary_lambda(registry.gauge(name("rotary_lambda"), "Learned weight of the token's order.")),
      rotary_omega_norm(registry.gauge(name("rotary_omega_norm"),
                                       "Norm of the learned weights of the token's time.")),
      broker_lost(registry.gauge(name("broker_lost"), "1 while no broker answers.")),
      step_seconds(registry.histogram(name("step_seconds"), "Learning one batch.", {},
                                      base::latency_buckets_s())),
      publish_seconds(registry.histogram(name("publish_seconds"), "Writing one model version.", {},
                                         base::latency_buckets_s())),
      closed_to_published_seconds(registry.histogram(
          name("closed_to_published_seconds"),
          "From the close of the newest learned window, by event time, to its publication.", {},
          {0.5, 1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600})) {
  for (const char* table : model::kTableNames) {
    rows_evicted.push_back(registry.counter(
        name("rows_evicted_total"),
        "Rows unseen longest that made room in a table of rows_max rows.", {{"table", table}}));
  }
  for (const std::string& task : tasks) {
    const base::Labels labels{{"task", task}};
    counter.push_back(
        {registry.gauge(name("counter_log_loss"),
                        "Log loss of the counter tower alone: the live baseline.", labels),
         registry.gauge(name("counter_normalized_entropy"),
                        "Normalized entropy of the counter tower alone.", labels)});
    progressive.push_back(
        {registry.gauge(name("progressive_log_loss"), "Log loss of the newest scored cells.",
                        labels),
         registry.gauge(name("progressive_normalized_entropy"),
                        "Normalized entropy of the newest scored cells.", labels),
         registry.gauge(name("progressive_auc"), "AUC of the newest scored cells.", labels),
         registry.gauge(name("progressive_expected_calibration_error"),
                        "Expected calibration error (20 bins) of the newest scored cells.", labels),
         registry.gauge(name("progressive_positive_rate"),
                        "Share of positives among the newest scored cells.", labels)});
  }
}

void TrainerProbe::set_model(const model::Model& model) const {
  std::size_t count = 0;
  for (const model::EmbeddingTable& table : model.tables) count += table.size();
  rows.set(static_cast<double>(count));
  if (model.layout.find("rotary.lambda") != nullptr) {
    rotary_lambda.set(model.tensor("rotary.lambda")[0]);
  }
  if (model.layout.find("rotary.omega") != nullptr) {
    double square = 0;
    for (const float omega : model.tensor("rotary.omega")) {
      square += static_cast<double>(omega) * omega;
    }
    rotary_omega_norm.set(std::sqrt(square));
  }
}

void TrainerProbe::set_counter(const std::vector<WindowFigures>& figures) const {
  for (std::size_t k = 0; k < counter.size() && k < figures.size(); ++k) {
    counter[k].log_loss.set(figures[k].log_loss);
    counter[k].normalized_entropy.set(figures[k].normalized_entropy);
  }
}

void TrainerProbe::add_removed(const StepReport& report) const {
  rows_expired.add(report.expired);
  for (std::size_t t = 0; t < rows_evicted.size(); ++t) rows_evicted[t].add(report.evicted[t]);
}

void TrainerProbe::set_progressive(const std::vector<WindowFigures>& figures) const {
  for (std::size_t k = 0; k < progressive.size() && k < figures.size(); ++k) {
    progressive[k].log_loss.set(figures[k].log_loss);
    progressive[k].normalized_entropy.set(figures[k].normalized_entropy);
    progressive[k].auc.set(figures[k].auc);
    progressive[k].calibration_error.set(figures[k].calibration_error);
    progressive[k].rate.set(figures[k].rate);
  }
}

}  // namespace sirenfeed::trainer
