#pragma once
// The extended set of context features (docs/FEATURES.md): what the counter and cross towers read.
// Computed after the base set, by the same code for examples and for serving.
#include <array>
#include <cstddef>
#include <cstdint>

#include "base/clock.h"
#include "features/exposure_keys.h"
#include "features/features_config.h"
#include "features/item_side.h"
#include "features/residual_counter.h"
#include "features/user_state.h"

namespace sirenfeed::features {

struct ContextRequest;
struct ContextCandidate;

inline constexpr std::size_t kExtendedFeatures = 64;

/// What was expected of an exposure when it was shown: the chance of a click that the residuals of
/// the user's keys (p0) and of all others (q0) are measured against. In [0, 1].
struct Baseline {
  double p0 = 0;
  double q0 = 0;
};

/// Where FEATURES.md leaves a case open: a user without exposures has g as mean p0; runs of skips
/// and the sums of ln duration are those of the kept sequence, with today's metadata; an item
/// without duration has 0 in the three features of it.
///
/// Threads: const after construction.
class ExtendedContext {
 public:
  /// As for ContextComputer.
  ExtendedContext(const ContextConfig& config, const ItemSide& item_side, ActionType click,
                  ActionType long_view);

  enum class Entity : std::uint8_t {
    kItem,
    kAuthor,
    kTagset,
    kSurface,
    kItemSurface,
    kBucketSurface,
    kHourSurface,
    kTagSurface,
    kAuthorSurface,
    kUser,
    kUserSurface,
    kUserTag,
    kUserBucket,
  };
  static constexpr std::size_t kEntities = 13;

  /// What all candidates of a request share; the candidate's own counts are filled in as it goes.
  struct Terms {
    double g = 0;
    double g_v = 0;
    std::array<ResidualValues, kEntities> counts{};
    double click_rate_last5 = 0;
    double click_rate_last20 = 0;
    double long_view_rate_last20 = 0;
    double mean_p0_last20 = 0;
    double skips_in_row = 0;
    double clicked_log_ms = 0;      // mean ln duration of the clicked exposures
    double long_viewed_log_ms = 0;  // and of the long-viewed ones
  };
  [[nodiscard]] Terms request_terms(const ContextRequest& request) const;

  /// Writes kExtendedFeatures finite values.
  Baseline candidate(const ContextRequest& request, const ContextCandidate& candidate, Terms& terms,
                     float* out) const;

 private:
  struct Chances;

  void add_sequence(const ContextRequest& request, Terms& terms) const;
  void load_counts(const ContextRequest& request, const ExposureKeys& keys, Terms& terms) const;

  const ContextConfig config_;
  const ItemSide& item_side_;
  const ActionType click_;
  const ActionType long_view_;
};

}  // namespace sirenfeed::features
