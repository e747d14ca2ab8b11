#include "trainer/warm_start.h"

#include <algorithm>
#include <utility>

namespace sirenfeed::trainer {

WarmStart::WarmStart(std::unique_ptr<OnlineTrainer> trainer, ExampleDecoder decoder)
    : trainer_(std::move(trainer)), decoder_(std::move(decoder)) {}

base::Result<std::unique_ptr<WarmStart>> WarmStart::create(const model::Model& start,
                                                           const StepConfig& config) {
  SF_ASSIGN(auto trainer, OnlineTrainer::create(start, config));
  return std::unique_ptr<WarmStart>(
      new WarmStart(std::move(trainer), ExampleDecoder(schema_of(start.config))));
}

base::Result<void> WarmStart::learn(const features::Example& example) {
  SF_ASSIGN(DecodedExample decoded, decoder_.decode(example));
  newest_ms_ = std::max(newest_ms_, decoded.slate.time_ms);
  batch_.push_back(std::move(decoded));
  if (batch_.size() == trainer_->config().batch_examples) learn_batch();
  return {};
}

void WarmStart::learn_batch() {
  pointers_.clear();
  for (const DecodedExample& example : batch_) pointers_.push_back(&example);
  trainer_->learn(pointers_);
  batch_.clear();
}

base::Result<void> WarmStart::finish(const std::string& checkpoint_file) {
  if (!batch_.empty()) learn_batch();
  return write_checkpoint(checkpoint_file, take_checkpoint(*trainer_, {{}, newest_ms_}));
}

}  // namespace sirenfeed::trainer
