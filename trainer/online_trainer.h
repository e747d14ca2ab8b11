#pragma once
// The trainer's core, without any log: score first, then learn, one batch after the other.
#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/model.h"
#include "model/slate.h"
#include "trainer/config.h"
#include "trainer/decoded_example.h"
#include "trainer/metric_window.h"
#include "trainer/optimizer.h"

namespace sirenfeed::trainer {

/// What one batch did.
struct StepReport {
  bool learned = false;      // false: not finite or exploded, nothing was changed
  double loss = 0;           // the whole objective
  double gradient_norm = 0;  // of the dense tensors, before clipping
  std::size_t rows = 0;      // of tables that were touched
  std::size_t expired = 0;   // rows unseen for row_expiry_days
  /// Rows of each table that made room (rows_max).
  std::array<std::size_t, model::kTableCount> evicted{};
};

/// The checkpoint's body at a batch boundary. Shares the tables' pages with the trainer, so that
/// taking it is cheap. Threads: may go to another one while the trainer learns on.
class TrainerState {
 public:
  void append_to(std::string& bytes) const;

 private:
  friend class OnlineTrainer;
  std::string before_tables_;
  std::array<model::EmbeddingTable, model::kTableCount> tables_;
  std::vector<RowAdagrad> rows_;  // a table
  std::string after_tables_;
};

/// Owns a model and all that training it needs: optimiser state, running statistics, calibration,
/// progressive metrics. The same batches in the same order give the same bytes, whatever
/// config.threads is.
///
/// T_ref: the first learned example's time. Until then every f is 0 (its last layers start at 0),
/// so that no score depends on it; with the model's paper_init the age is clamped at 1 until then.
///
/// Threads: one caller; TBB workers only within a call.
class OnlineTrainer {
 public:
  static base::Result<std::unique_ptr<OnlineTrainer>> create(const model::Model& start,
                                                             const StepConfig& config);
  ~OnlineTrainer();
  OnlineTrainer(const OnlineTrainer&) = delete;
  OnlineTrainer& operator=(const OnlineTrainer&) = delete;

  /// One optimiser step. The batch is scored with the model before the step; those scores of the
  /// unmasked cells of revision 0 feed the progressive metrics and the calibration.
  StepReport learn(std::span<const DecodedExample* const> batch);

  /// Served logits (calibration applied) of many slates: `logits` becomes the slates' [C, K]
  /// blocks, one after the other.
  void score(std::span<const model::Slate* const> slates, std::vector<float>& logits);

  [[nodiscard]] const model::Model& model() const;
  [[nodiscard]] const StepConfig& config() const;
  [[nodiscard]] std::uint64_t examples() const;  // learned, corrections included
  [[nodiscard]] std::uint64_t batches() const;
  [[nodiscard]] std::uint64_t batches_skipped() const;
  [[nodiscard]] std::vector<WindowFigures> progressive() const;  // a task
  /// The counter tower's own, uncalibrated: the live baseline. Empty without it.
  [[nodiscard]] std::vector<WindowFigures> counter_progressive() const;
  /// What both are computed from, which takes a while.
  [[nodiscard]] const std::vector<MetricWindow>& windows() const;
  [[nodiscard]] const std::vector<MetricWindow>& counter_windows() const;

  [[nodiscard]] TrainerState state() const;
  /// The checkpoint's body, state() in bytes: everything that the next batch depends on. Equal
  /// states give equal bytes.
  void append_to(std::string& bytes) const;
  /// Reads a body written for the same model configuration and step configuration; kCorrupt
  /// otherwise, and the trainer is then not to be used.
  [[nodiscard]] base::Result<void> restore(std::string_view bytes);

 private:
  struct Impl;
  explicit OnlineTrainer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace sirenfeed::trainer
