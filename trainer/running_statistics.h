#pragma once
// Mean and std of the context features and the mean action bits, kept as the stream goes by.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/model.h"

namespace sirenfeed::trainer {

/// Each example counts once, with weight max(1/n, weight_min), n the examples so far: its
/// candidates share that weight in mean and std; its history tokens (the newest L) share it in
/// action.mean, where n counts the examples that have a history. Kept in double here; the model
/// gets floats. Threads: one.
class RunningStatistics {
 public:
  RunningStatistics(const model::ModelConfig& config, double weight_min);

  void add(const model::Slate& slate);
  /// Copies the figures into the model.
  void write_to(model::Statistics& statistics) const;
  [[nodiscard]] std::uint64_t examples() const { return examples_; }

  void append_to(std::string& bytes) const;
  [[nodiscard]] base::Result<void> restore(std::string_view& bytes);

 private:
  void add_context(const model::Slate& slate);
  void add_actions(const model::Slate& slate);

  double weight_min_;
  std::size_t contexts_;
  std::size_t actions_;
  model::ModelConfig config_;  // of the history's tokens
  std::uint64_t examples_ = 0;
  std::uint64_t with_history_ = 0;
  std::vector<double> mean_;
  std::vector<double> variance_;
  std::vector<double> action_mean_;  // [A + 1], none last
};

}  // namespace sirenfeed::trainer
