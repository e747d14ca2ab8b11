#include "trainer/prequential_pass.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "model/loss.h"

namespace sirenfeed::trainer {

PrequentialPass::PrequentialPass(std::string name, std::unique_ptr<OnlineTrainer> trainer,
                                 std::size_t score_pending_max)
    : trainer_(std::move(trainer)), score_pending_max_(score_pending_max) {
  result_.name = std::move(name);
}

void PrequentialPass::on_exposure(std::shared_ptr<const DecodedExample> example) {
  // What was closed before the first exposure of a new T may be learned now, and only now: later
  // exposures of the T before would otherwise see a newer model than its first one did.
  if (example->slate.time_ms != now_ms_) learn_full_batches();
  now_ms_ = example->slate.time_ms;
  const std::size_t tasks = trainer_->model().config.n_tasks();
  const std::size_t row_begin = result_.rows.size();
  auto& rows = open_[{example->identity.impression_partition, example->identity.impression_offset}];
  for (const std::string& item_id : example->item_ids) {
    rows.push_back(result_.rows.size());
    result_.rows.push_back({.time_ms = now_ms_,
                            .user_id = example->user_id,
                            .item_id = item_id,
                            .identity = example->identity,
                            .cells = std::vector<PredictionCell>(tasks, {.masked = true})});
  }
  pending_.push_back({std::move(example), row_begin});
  if (pending_.size() >= score_pending_max_) score_pending();
}

void PrequentialPass::on_closed(std::shared_ptr<const DecodedExample> example) {
  if (!example->labels.correction) note_labels(*example);
  closed_.push_back(std::move(example));
}

void PrequentialPass::note_labels(const DecodedExample& example) {
  const auto open =
      open_.find({example.identity.impression_partition, example.identity.impression_offset});
  if (open == open_.end()) return;
  const std::size_t tasks = trainer_->model().config.n_tasks();
  std::vector<std::size_t>& rows = open->second;
  for (std::size_t c = 0; c < example.item_ids.size(); ++c) {
    // A slate may show an item twice: each time takes the next row of that item which has no label.
    const auto row = std::find_if(rows.begin(), rows.end(), [&](std::size_t index) {
      const PredictionRow& candidate = result_.rows[index];
      if (candidate.item_id != example.item_ids[c]) return false;
      for (std::size_t k = 0; k < tasks; ++k) {
        if (candidate.cells[k].masked && example.labels.weight[c * tasks + k] > 0) return true;
      }
      return false;
    });
    if (row == rows.end()) continue;
    std::vector<PredictionCell>& cells = result_.rows[*row].cells;
    bool complete = true;
    for (std::size_t k = 0; k < tasks; ++k) {
      if (example.labels.weight[c * tasks + k] > 0) {
        cells[k].masked = false;
        cells[k].label = example.labels.label[c * tasks + k] > 0.5F ? 1 : 0;
      }
      complete = complete && !cells[k].masked;
    }
    if (complete) rows.erase(row);
  }
  if (rows.empty()) open_.erase(open);
}

void PrequentialPass::score_pending() {
  if (pending_.empty()) return;
  slates_.clear();
  for (const Pending& pending : pending_) slates_.push_back(&pending.example->slate);
  trainer_->score(slates_, logits_);
  std::size_t at = 0;
  for (const Pending& pending : pending_) {
    const std::size_t candidates = pending.example->slate.candidates.size();
    for (std::size_t c = 0; c < candidates; ++c) {
      for (PredictionCell& cell : result_.rows[pending.row_begin + c].cells) {
        cell.probability = model::sigmoid(logits_[at++]);
      }
    }
  }
  SF_CHECK(at == logits_.size());
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
  const auto never_closed = [](const PredictionRow& row) {
    return std::all_of(row.cells.begin(), row.cells.end(),
                       [](const PredictionCell& cell) { return cell.masked; });
  };
  result_.unmatched = static_cast<std::uint64_t>(std::erase_if(result_.rows, never_closed));
  open_.clear();
  return std::move(result_);
}

}  // namespace sirenfeed::trainer
