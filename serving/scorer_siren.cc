#include <algorithm>
#include <chrono>
#include <cmath>

#include "model/ranker.h"
#include "serving/scorer.h"

namespace sirenfeed::serving {

using base::ErrorCode;
using base::fail;

namespace {

std::int64_t us_since(std::chrono::steady_clock::time_point begin) {
  const auto took = std::chrono::steady_clock::now() - begin;
  return std::chrono::duration_cast<std::chrono::microseconds>(took).count();
}

float sigmoid(float logit) { return 1.0F / (1.0F + std::exp(-logit)); }

/// Weight of each of the model's tasks; a task that is not configured does not count.
std::vector<double> weights_of(const ScorerConfig& config, const std::vector<std::string>& tasks) {
  std::vector<double> weights(tasks.size(), 0.0);
  for (const TaskWeight& weight : config.task_weights) {
    const auto task = std::find(tasks.begin(), tasks.end(), weight.task);
    if (task != tasks.end())
      weights[static_cast<std::size_t>(task - tasks.begin())] = weight.weight;
  }
  return weights;
}

/// Gives the workspace back whatever happens.
class BorrowedWorkspace {
 public:
  explicit BorrowedWorkspace(WorkspacePool& pool) : pool_(pool), workspace_(pool.take()) {}
  ~BorrowedWorkspace() { pool_.give_back(std::move(workspace_)); }
  BorrowedWorkspace(const BorrowedWorkspace&) = delete;
  BorrowedWorkspace& operator=(const BorrowedWorkspace&) = delete;
  model::Workspace& get() { return workspace_; }

 private:
  WorkspacePool& pool_;
  model::Workspace workspace_;
};

}  // namespace

model::Workspace WorkspacePool::take() {
  base::MutexLock lock(mutex_);
  if (free_.empty()) return {};
  model::Workspace workspace = std::move(free_.back());
  free_.pop_back();
  return workspace;
}

void WorkspacePool::give_back(model::Workspace workspace) {
  base::MutexLock lock(mutex_);
  free_.push_back(std::move(workspace));
}

base::Result<ScoredSlate> SirenScorer::run_scorer(const FeedContext& context,
                                                  std::vector<Candidate> candidates) const {
  const model::ModelConfig& config = snapshot_->model.config;
  if (config.context_row_names() != context.features.feature_names()) {
    return fail(ErrorCode::kInvalidArgument,
                "model {} was learned with other context features than this node computes",
                snapshot_->manifest.version);
  }
  ScoredSlate slate;
  auto begin = std::chrono::steady_clock::now();
  const std::size_t width = config.context_row_width();
  slate.context_width = width;
  slate.context.resize(candidates.size() * width);
  std::vector<Key> keys;
  keys.reserve(candidates.size());
  for (const Candidate& candidate : candidates) keys.push_back(candidate.item);
  context.features.context(context.user, keys, context.surface, slate.context);
  slate.features_us = us_since(begin);

  begin = std::chrono::steady_clock::now();
  const std::size_t n_tasks = config.n_tasks();
  const std::vector<double> weights = weights_of(context.config.scorer, config.tasks);
  BorrowedWorkspace workspace(pool_);
  std::vector<float> logits;
  slate.scored.reserve(candidates.size());
  const std::size_t block = context.config.scorer.block_items;
  for (std::size_t first = 0; first < candidates.size(); first += block) {
    const std::size_t rows = std::min(block, candidates.size() - first);
    const model::Slate part = make_slate(
        context.user, context.surface, context.now_ms, std::span(candidates).subspan(first, rows),
        std::span(slate.context).subspan(first * width, rows * width));
    logits.resize(rows * n_tasks);
    SF_TRY(model::score(*snapshot_->ranker, snapshot_->model, part, workspace.get(), logits));
    for (std::size_t row = 0; row < rows; ++row) {
      ScoredCandidate scored{.candidate = std::move(candidates[first + row]),
                             .utility = 0,
                             .probabilities = std::vector<float>(n_tasks)};
      for (std::size_t task = 0; task < n_tasks; ++task) {
        scored.probabilities[task] = sigmoid(logits[row * n_tasks + task]);
        scored.utility += weights[task] * static_cast<double>(scored.probabilities[task]);
      }
      slate.scored.push_back(std::move(scored));
    }
  }
  slate.scorer_us = us_since(begin);
  return slate;
}

}  // namespace sirenfeed::serving
