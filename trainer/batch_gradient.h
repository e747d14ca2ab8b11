#pragma once
// Forward and backward of one batch: fixed chunks in parallel, sums in fixed order, so that the
// bytes do not depend on the number of threads.
#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "model/loss.h"
#include "model/model.h"
#include "model/ranker.h"
#include "trainer/decoded_example.h"

namespace sirenfeed::trainer {

/// The batch's gradient of one table: each touched key once, in order of first use in the batch.
struct TableGradient {
  std::vector<model::Key> keys;
  std::vector<float> rows;  // [keys, width]
};

/// What compute() leaves; its memory is used again by the next call.
struct BatchResult {
  bool finite = false;  // loss and rows; of the dense gradient, Adam::norm tells
  double loss = 0;
  std::vector<std::size_t> row_begin;  // of each example in z, in rows of K
  std::vector<float> mean;             // [rows, K]: of the towers' logits, before calibration
  std::vector<float> counter;          // [rows, K]: the counter tower's; empty without it
  std::vector<float> dense;            // like Model::dense
  std::array<TableGradient, model::kTableCount> tables;
};

/// Threads: one caller; TBB workers only within a call.
class BatchGradient {
 public:
  /// `threads` 0: all cores.
  BatchGradient(const model::Ranker& ranker, const model::LossConfig& loss,
                std::size_t chunk_examples, std::size_t threads);
  ~BatchGradient();
  BatchGradient(const BatchGradient&) = delete;
  BatchGradient& operator=(const BatchGradient&) = delete;

  const BatchResult& compute(const model::Model& model,
                             std::span<const DecodedExample* const> batch);

  /// Mean logits of the towers [rows, K] of many slates, before calibration, in their order.
  void score(const model::Model& model, std::span<const model::Slate* const> slates,
             std::vector<float>& mean);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sirenfeed::trainer
