#pragma once
// The inside of BasicWorkspace: every intermediate of one forward call. For model/ and its tests.
#include <vector>

#include "model/angle_terms.h"
#include "model/attention.h"
#include "model/block.h"
#include "model/chunk_index.h"
#include "model/head.h"
#include "model/pooling.h"
#include "model/ranker.h"
#include "model/token_embedding.h"
#include "model/towers.h"

namespace sirenfeed::model {

/// What one set of angle terms computes: shared by all layers, or of one layer.
template <class T>
struct AngleSet {
  AngleState<T> angles;
  Matrix<T> theta;  // [rows, P]
  Turns<T> turns;
  Matrix<T> d_turns;  // [rows, 2P]
  Matrix<T> d_theta;  // [rows, P]
};

template <class T>
struct BasicWorkspace<T>::Impl {
  std::uint32_t position_origin = 0;  // of the next forward (ChunkIndex::build)
  ChunkIndex index;
  ChunkRows<T> rows;
  typename TokenEmbedding<T>::State embedding;
  Matrix<T> x;  // after token_norm [rows, d]
  Matrix<T> a;  // [history rows, d]

  std::vector<AngleSet<T>> angle_sets;

  AttentionPlan block_plan;
  AttentionPlan pooling_plan;
  AttentionScratch<T> attention_scratch;
  AlignedVector<T> logit_bias;
  AlignedVector<T> d_logit_bias;
  std::vector<typename Block<T>::State> layers;
  typename Block<T>::Scratch block_scratch;
  InferTile<T> tile;
  typename Pooling<T>::State pooling;
  typename Head<T>::State head;
  typename Towers<T>::State towers;

  Matrix<T> d_x;
  Matrix<T> d_a;
  Matrix<T> d_pooled;
};

}  // namespace sirenfeed::model
