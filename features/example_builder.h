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

inline constexpr std::uint32_t kExampleVersion = 1;

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

  /// `types[c]`: bit of each action type that candidate c got within the window.
  void set_labels(std::span<const std::uint64_t> types, base::UnixMs closed_ms,
                  Example& example) const;

  /// Masks every cell but those of action type `type` of candidate `item`. After set_labels();
  /// false: no task is of that type, or the item is not there.
  [[nodiscard]] bool mask_all_but(Key item, ActionType type, Example& example) const;

  /// The example itself, or, where it is larger than example_bytes_max, its parts.
  [[nodiscard]] std::vector<Example> split(Example example) const;

 private:
  void fill_history(const History& history, Example& example) const;

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
