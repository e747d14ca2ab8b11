#pragma once
// Makes examples: the inputs at exposure, the labels at the window's close.
#include <example.pb.h>

#include <cstdint>
#include <span>
#include <vector>

#include "features/context_computer.h"
#include "features/features_config.h"
#include "features/history.h"
#include "ingest/event.h"
#include "ingest/topic.h"

namespace sirenfeed::features {

/// The newest version, and the one of examples that use nothing of it.
inline constexpr std::uint32_t kExampleVersion = 2;
inline constexpr std::uint32_t kPlainExampleVersion = 1;

/// Where an impression lies.
struct ImpressionPlace {
  ingest::Partition partition = 0;
  ingest::Offset offset = 0;
};

/// A shown item with what the catalog knew when it was shown.
struct Shown {
  const ingest::ShownItem* shown = nullptr;
  ContextCandidate candidate;
  ExposureKeys keys;
  Baseline baseline;  // of the extended set: build() sets it
};

/// Threads: the applying one.
class ExampleBuilder {
 public:
  /// `computer` and `item_side` outlive it. `task_types[k]` is the action type of task k.
  ExampleBuilder(const FeaturesConfig& config, const ItemSide& item_side,
                 const ContextComputer& computer, const ActionBits& bits,
                 std::vector<ActionType> task_types);

  /// Everything but labels and sequence number; the state is as it was before the impression.
  void build(const ingest::Impression& impression, ImpressionPlace place, const UserState& user,
             std::span<Shown> shown, Example& example);

  /// Bit of each task that `type` decides.
  [[nodiscard]] std::uint32_t tasks_of(ActionType type) const;

  /// `types[c]`: bit of each action type that candidate c got within the window. Only the cells of
  /// `tasks` are unmasked.
  void set_labels(std::span<const std::uint64_t> types, std::uint32_t tasks, base::UnixMs closed_ms,
                  Example& example) const;

  /// Masks every cell but those of candidate `item`, after set_labels().
  static void mask_all_but(Key item, Example& example);

  /// The example itself, or, where it is larger than example_bytes_max, its parts. Where `tasks`
  /// are not all of them, the parts are numbered so that no other tasks of the impression have the
  /// same numbers.
  [[nodiscard]] std::vector<Example> split(Example example, std::uint32_t tasks) const;

 private:
  const FeaturesConfig& config_;
  const ItemSide& item_side_;
  const ContextComputer& computer_;
  const ActionBits bits_;
  const std::vector<ActionType> task_types_;
  std::uint64_t context_schema_ = 0;
  std::uint64_t task_schema_ = 0;
  std::uint64_t action_schema_ = 0;
  std::vector<ContextCandidate> candidates_;  // scratch
  std::vector<float> context_;                // scratch
  std::vector<Baseline> baselines_;           // scratch
};

}  // namespace sirenfeed::features
