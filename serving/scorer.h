#pragma once
// From candidates to utilities: SIREN-RoPE with the request's time, or, while there is no model,
// popularity and freshness.
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/result.h"
#include "model/model_store.h"
#include "model/slate.h"
#include "serving/candidate.h"

namespace sirenfeed::serving {

/// c of the kept candidates, [candidates, width] row-major; empty without a model.
struct ScoredSlate {
  std::vector<ScoredCandidate> scored;  // in the order of the candidates
  std::vector<float> context;
  std::size_t context_width = 0;
  std::int64_t features_us = 0;
  std::int64_t scorer_us = 0;
};

/// Threads: any.
class Scorer {
 public:
  virtual ~Scorer() = default;
  [[nodiscard]] virtual base::Result<ScoredSlate> run_scorer(
      const FeedContext& context, std::vector<Candidate> candidates) const = 0;
};

/// Utility = Σ task weight × calibrated probability.
class SirenScorer final : public Scorer {
 public:
  SirenScorer(std::shared_ptr<const model::ModelSnapshot> snapshot, class WorkspacePool& pool)
      : snapshot_(std::move(snapshot)), pool_(pool) {}
  /// kInvalidArgument when the model was learned with other context features than the state
  /// computes.
  [[nodiscard]] base::Result<ScoredSlate> run_scorer(
      const FeedContext& context, std::vector<Candidate> candidates) const override;

 private:
  std::shared_ptr<const model::ModelSnapshot> snapshot_;
  WorkspacePool& pool_;
};

/// The cold answer: what a source found first comes first, popular before fresh before the rest.
class ColdScorer final : public Scorer {
 public:
  [[nodiscard]] base::Result<ScoredSlate> run_scorer(
      const FeedContext& context, std::vector<Candidate> candidates) const override;
};

/// Workspaces of model::score, which allocates nothing when it gets a used one. Threads: any; as
/// many workspaces as there were concurrent requests.
class WorkspacePool {
 public:
  [[nodiscard]] model::Workspace take() SF_EXCLUDES(mutex_);
  void give_back(model::Workspace workspace) SF_EXCLUDES(mutex_);

 private:
  base::Mutex mutex_;
  std::vector<model::Workspace> free_ SF_GUARDED_BY(mutex_);
};

/// History and candidates as the model takes them; `surface` of the request, empty where it is not
/// known; `context` [candidates, F + F_t].
[[nodiscard]] model::Slate make_slate(const features::UserSnapshot& user, std::string_view surface,
                                      base::UnixMs now_ms, std::span<const Candidate> candidates,
                                      std::span<const float> context);

}  // namespace sirenfeed::serving
