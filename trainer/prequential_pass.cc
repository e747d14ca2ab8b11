#include "trainer/prequential_pass.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace sirenfeed::trainer {

PrequentialPass::PrequentialPass(std::string name, std::unique_ptr<OnlineTrainer> trainer,
                                 std::size_t score_pending_max)
    : trainer_(std::move(trainer)), score_pending_max_(score_pending_max) {
  result_.name = std::move(name);
}

void PrequentialPass::on_exposure(std::shared_ptr<const DecodedExample> example) {
  add_pending({std::move(example), false});
}

void PrequentialPass::on_frozen(std::shared_ptr<const DecodedExample> example) {
  add_pending({std::move(example), true});
}

void PrequentialPass::add_pending(Pending pending) {
  // What was closed before the first exposure of a new T may be learned now, and only now: later
  // exposures of the T before would otherwise see a newer model than its first one did.
  const base::UnixMs time_ms = pending.example->slate.time_ms;
  if (time_ms != now_ms_) learn_full_batches();
  now_ms_ = time_ms;
  pending_.push_back(std::move(pending));
  if (pending_.size() >= score_pending_max_) score_pending();
}

void PrequentialPass::on_closed(std::shared_ptr<const DecodedExample> example) {
  closed_.push_back(std::move(example));
}

void PrequentialPass::score_pending() {
  if (pending_.empty()) return;
  slates_.clear();
  for (const Pending& pending : pending_) slates_.push_back(&pending.example->slate);
  trainer_->score(slates_, logits_);
  result_.not_finite += static_cast<std::uint64_t>(
      std::count_if(logits_.begin(), logits_.end(), [](float z) { return !std::isfinite(z); }));
  const std::size_t tasks = trainer_->model().config.n_tasks();
  auto from = logits_.begin();
  for (const Pending& pending : pending_) {
    const auto to = from + static_cast<std::ptrdiff_t>(pending.example->item_ids.size() * tasks);
    std::vector<float>& logits = pending.frozen ? result_.frozen_logits : result_.logits;
    logits.insert(logits.end(), from, to);
    from = to;
  }
  pending_.clear();
}

void PrequentialPass::learn_full_batches() {
  const std::size_t batch = trainer_->config().batch_examples;
  if (closed_.size() < batch) return;
  score_pending();
  while (closed_.size() >= batch) learn(batch);
}

void PrequentialPass::learn(std::size_t count) {
  batch_.clear();
  for (std::size_t i = 0; i < count; ++i) batch_.push_back(closed_[i].get());
  trainer_->learn(batch_);
  closed_.erase(closed_.begin(), closed_.begin() + static_cast<std::ptrdiff_t>(count));
}

PrequentialResult PrequentialPass::finish() {
  score_pending();
  learn_full_batches();
  if (!closed_.empty()) learn(closed_.size());
  result_.examples = trainer_->examples();
  result_.batches = trainer_->batches();
  result_.batches_skipped = trainer_->batches_skipped();
  return std::move(result_);
}

}  // namespace sirenfeed::trainer
