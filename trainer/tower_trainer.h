#pragma once
// Trains the towers beside the transformer, each on its own BCE of all tasks: the counter tower by
// Adam on every batch and then on batches of replayed rows, the cross tower by Adagrad. A late
// correction is learned from; the row that it corrects is replayed with its new label.
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "model/model.h"
#include "trainer/config.h"
#include "trainer/decoded_example.h"

namespace sirenfeed::trainer {

/// Threads: one; prepare() may run beside other readers of the model.
class TowerTrainer {
 public:
  TowerTrainer(const model::Model& start, const StepConfig& config);
  ~TowerTrainer();
  TowerTrainer(const TowerTrainer&) = delete;
  TowerTrainer& operator=(const TowerTrainer&) = delete;

  /// Computes the towers' steps for a batch and keeps them aside. False when a loss or gradient, of
  /// the batch or of a replayed one, is not finite or exploded: then nothing is to be
  /// committed. Without towers
  /// true.
  [[nodiscard]] bool prepare(const model::Model& model,
                             std::span<const DecodedExample* const> batch);
  /// Puts what the last prepare() computed into the model and remembers the batch for replay.
  /// Call it after the batch's own scores were used: the cross tower's bins may move.
  void commit(model::Model& model, std::span<const DecodedExample* const> batch);

  /// Bytes: counter tower 8 a parameter; replay buffer at most replay_bytes_max; cross tower
  /// 8 + 8 K a weight row, of at most 2^20.
  void append_to(std::string& bytes, const model::Model& model) const;
  /// Fills the cross tower of `model`, which must be at its start.
  [[nodiscard]] base::Result<void> restore(std::string_view& bytes, model::Model& model);

 private:
  struct Counter;
  struct Cross;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sirenfeed::trainer
