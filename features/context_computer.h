#pragma once
// The one computation of the context features c (docs/FEATURES.md), for examples and for serving.
#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "base/clock.h"
#include "features/extended_context.h"
#include "features/features_config.h"
#include "features/item_side.h"
#include "features/user_state.h"

namespace sirenfeed::features {

/// What features read of a request: everything as of strictly before `time_ms`.
struct ContextRequest {
  const UserState& user;
  Key surface = kNoKey;
  base::UnixMs time_ms = 0;
};

struct ContextCandidate {
  Key item = kNoKey;
  CatalogItemPtr meta;  // null: not in the catalog
};

/// Threads: const after construction.
class ContextComputer {
 public:
  /// `item_side` outlives it. The two types are those that the configuration's names have in the
  /// store.
  ContextComputer(const ContextConfig& config, const ItemSide& item_side, ActionType click,
                  ActionType long_view);

  [[nodiscard]] std::size_t feature_count() const { return feature_count_; }

  /// `out` is [candidates, feature_count()] row-major. A candidate's features do not depend on the
  /// others. All values are finite.
  /// `baselines`, one a candidate, or empty; set where the extended set is on.
  void compute(const ContextRequest& request, std::span<const ContextCandidate> candidates,
               std::span<float> out, std::span<Baseline> baselines = {}) const;

 private:
  struct Terms;

  [[nodiscard]] Terms request_terms(const ContextRequest& request) const;
  void add_recent(const ContextRequest& request, Terms& terms) const;
  void candidate(const ContextRequest& request, const Terms& terms,
                 const ContextCandidate& candidate, float* out) const;
  void item_terms(const ContextRequest& request, const CatalogItem* meta, float* out) const;

  const ContextConfig config_;
  const ItemSide& item_side_;
  const ActionType click_;
  const ActionType long_view_;
  std::vector<Key> surface_keys_;
  std::optional<ExtendedContext> extended_;
  std::size_t base_count_ = 0;
  std::size_t feature_count_ = 0;
};

}  // namespace sirenfeed::features
