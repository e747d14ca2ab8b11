#pragma once
// One attention layer with SIREN-RoPE, alone: for sequences of any kind, outside the ranker. Every
// token is a vector with a time and a kind (a small number: a sensor's type, a topic); attention
// turns query and key by
//   Θ = ω f(time) + ω_sem f_sem(kind) + λ p θ        (Cheng et al., arXiv 2604.24717)
// and `rotation` alone decides which of these terms there are: kOrdinal is plain RoPE.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/result.h"
#include "model/config.h"
#include "model/matrix.h"
#include "model/parameters.h"
#include "model/slate.h"

namespace sirenfeed::model {

struct SequenceAttentionConfig {
  /// Any variant but kTimeEmbedding, which changes the tokens and not the attention, and
  /// kSirenDiscovery, which reads what these tokens have not.
  Variant rotation = Variant::kSiren;
  int width = 32;  // of a token: heads times an even number
  int heads = 2;
  int kinds = 1;                                  // kinds are 0 … kinds − 1
  int angle_width = 16;                           // of the angle networks' hidden layers
  int angle_hidden_layers = 2;                    // of each angle network
  int semantic_width = 16;                        // of the learned vector behind a kind
  double omega0 = 3.0;                            // frequency scale of the sine paths
  double base = 100'000.0;                        // of plain RoPE's θ_j = base^(−2j/d_k)
  double attention_scale = 0;                     // the factor on q·k; 0: 1/√d_k
  std::int64_t time_reference_ms = 0;             // where "age" is 0
  std::int64_t time_span_ms = 42LL * 86'400'000;  // "age" is clamped to ± this
  std::int64_t zone_offset_ms = 0;                // added to times before hour and weekday
  int tokens_max = 4096;                          // of one sequence
  std::uint64_t seed = 1;                         // of the start; below 2^63

  /// Names the first bad field.
  [[nodiscard]] base::Result<void> validate() const;
};

struct SequenceToken {
  std::int64_t time_ms = kUnknownTime;  // Unix ms; may be before 1970
  std::int32_t kind = -1;               // −1: none
};

/// Token i of a sequence attends to the tokens before it and not to itself; the first one, which
/// sees none, gets a learned vector. Query and key come from x, the value from `values`: what is
/// known of a token only afterwards (a sensor's reading) belongs into `values` alone.
///
/// Parameters and gradients are one flat buffer each, described by layout(), so that an optimiser
/// is one loop. Threads: one at a time an object.
template <class T>
class BasicSequenceAttention {
 public:
  [[nodiscard]] static base::Result<BasicSequenceAttention> create(
      const SequenceAttentionConfig& config);
  ~BasicSequenceAttention();
  BasicSequenceAttention(BasicSequenceAttention&&) noexcept;
  BasicSequenceAttention& operator=(BasicSequenceAttention&&) noexcept;

  [[nodiscard]] std::span<T> parameters();
  /// Of the same length as parameters().
  [[nodiscard]] std::span<T> gradient();
  [[nodiscard]] const ParameterLayout& layout() const;

  /// Several sequences stacked, oldest token first: `lengths` adds up to `tokens`. x and values
  /// [tokens, width] → y [tokens, width]. kInvalidArgument names the token or sequence that does
  /// not fit; then y is untouched.
  [[nodiscard]] base::Result<void> forward(std::span<const SequenceToken> tokens,
                                           std::span<const std::size_t> lengths, View<const T> x,
                                           View<const T> values, View<T> y);

  /// Of the last forward(), whose x and values must still be there. gradient() and d_x, d_values
  /// [tokens, width] are overwritten.
  void backward(View<const T> d_y, View<T> d_x, View<T> d_values);

 private:
  struct Impl;
  explicit BasicSequenceAttention(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

using SequenceAttention = BasicSequenceAttention<float>;
extern template class BasicSequenceAttention<float>;
extern template class BasicSequenceAttention<double>;

}  // namespace sirenfeed::model
