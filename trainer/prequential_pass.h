#pragma once
// One run of a prequential pass: the causal order of scoring and learning (STREAM.md, Causality),
// without threads or queues.
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "trainer/online_trainer.h"
#include "trainer/prequential.h"

namespace sirenfeed::trainer {

/// Threads: one.
class PrequentialPass {
 public:
  PrequentialPass(std::string name, std::unique_ptr<OnlineTrainer> trainer,
                  std::size_t score_pending_max);

  void on_exposure(std::shared_ptr<const DecodedExample> example);
  /// The same slate as the next exposure, of a frozen user; scored by the same model.
  void on_frozen(std::shared_ptr<const DecodedExample> example);
  void on_closed(std::shared_ptr<const DecodedExample> example);
  PrequentialResult finish();
  [[nodiscard]] const OnlineTrainer& trainer() const { return *trainer_; }

 private:
  struct Pending {
    std::shared_ptr<const DecodedExample> example;
    bool frozen = false;
  };
  void add_pending(Pending pending);
  void score_pending();
  void learn_full_batches();
  void learn(std::size_t count);

  PrequentialResult result_;
  std::unique_ptr<OnlineTrainer> trainer_;
  const std::size_t score_pending_max_;
  base::UnixMs now_ms_ = 0;                                   // time of the newest exposure
  std::vector<Pending> pending_;                              // to score, in order
  std::deque<std::shared_ptr<const DecodedExample>> closed_;  // to learn, in order
  std::vector<const model::Slate*> slates_;
  std::vector<const DecodedExample*> batch_;
  std::vector<float> logits_;
};

}  // namespace sirenfeed::trainer
