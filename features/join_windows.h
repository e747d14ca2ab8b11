#pragma once
// When an impression's example leaves, and how long each action type may answer it.
//
// Waiting (the default): revision 0 leaves at the close of the longest window, with every label. A
// slow action type then delays the fast ones, which per_task_close avoids: a task leaves at the end
// of its own window, in a part of its own.
//
// Fake negatives: revision 0 leaves when the impression is applied, every cell negative; an action
// makes a further revision of its own cell, in time or late. The model learns without delay from a
// stream in which a positive was a negative first. The trainer weighs both so that the expected
// gradient is zero where the model is right (model/loss.h): the fake-negative-weighted loss of
// Ktena, Tejani, Theis, Myana, Dilipkumar, Huszár, Yoo and Shi, "Addressing delayed feedback for
// continuous training with neural networks in CTR prediction" (RecSys 2019).
#include <cstddef>
#include <cstdint>
#include <span>
#include <tuple>
#include <vector>

#include "features/action_types.h"
#include "features/features_config.h"

namespace sirenfeed::features {

/// The order in which revision 0 leaves a partition: by the impressions' (T, offset), with
/// per_task_close by the ends of windows, with fake negatives as the impressions came.
using LeavingRank = std::tuple<base::UnixMs, base::UnixMs, ingest::Offset>;
[[nodiscard]] LeavingRank rank_of(const JoinConfig& config, base::UnixMs closed_ms,
                                  base::UnixMs time_ms, ingest::Offset offset);

/// Immutable. Threads: any.
class JoinWindows {
 public:
  /// One end of a window: due once the watermark is past T + window_ms.
  struct Stage {
    base::UnixMs window_ms = 0;
    std::uint32_t tasks = 0;  // bit of each task that leaves then
  };

  /// `task_types[k]` is the action type of task k.
  JoinWindows(const JoinConfig& config, ActionTypes& types, std::span<const ActionType> task_types);

  [[nodiscard]] base::UnixMs of(ActionType type) const { return by_type_.at(type); }
  [[nodiscard]] base::UnixMs longest() const { return stages_.back().window_ms; }
  /// Ascending; after the last one nothing joins the impression any more.
  [[nodiscard]] const std::vector<Stage>& stages() const { return stages_; }
  /// The stage that ends next for an impression of which the tasks `left` are gone: a store may
  /// have been written with other windows.
  [[nodiscard]] std::uint8_t stage_of(std::uint32_t left) const;
  [[nodiscard]] bool last(std::size_t stage) const { return stage + 1 == stages_.size(); }
  [[nodiscard]] std::uint32_t all_tasks() const { return all_tasks_; }

 private:
  std::vector<base::UnixMs> by_type_;
  std::vector<Stage> stages_;
  std::uint32_t all_tasks_ = 0;
};

}  // namespace sirenfeed::features
