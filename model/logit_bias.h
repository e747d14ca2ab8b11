#pragma once
// Terms added to attention logits before the softmax, shared by all layers and the pooling.
#include <memory>
#include <vector>

#include "model/attention.h"
#include "model/chunk_index.h"
#include "model/model.h"

namespace sirenfeed::model {

template <class T>
class LogitBias {
 public:
  virtual ~LogitBias() = default;
  /// bias, of plan_block's shape, is overwritten where a query sees a key.
  virtual void fill(const BasicModel<T>& model, const ChunkIndex& index, const AttentionPlan& plan,
                    T* bias) const = 0;
  /// d_dense += …, from the summed gradients of all layers and the pooling.
  virtual void backward(const BasicModel<T>& model, const ChunkIndex& index,
                        const AttentionPlan& plan, const T* d_bias, T* d_dense) const = 0;
};

/// nullptr for a variant without one.
template <class T>
[[nodiscard]] std::unique_ptr<const LogitBias<T>> make_logit_bias(const ModelConfig& config,
                                                                  const ParameterLayout& layout);

extern template std::unique_ptr<const LogitBias<float>> make_logit_bias(const ModelConfig&,
                                                                        const ParameterLayout&);
extern template std::unique_ptr<const LogitBias<double>> make_logit_bias(const ModelConfig&,
                                                                         const ParameterLayout&);

}  // namespace sirenfeed::model
