#pragma once
// The shape table: every dense tensor's name, shape, offset in the one flat buffer, and start. The
// optimiser, the checkpoint, the file and the gradient check are one loop over it each.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/config.h"
#include "model/starts.h"
#include "model/time_features.h"

namespace sirenfeed::model {

/// Candidate signals of the discovery variant: elements of rotary.gate (model/discovery.h).
inline constexpr std::size_t kSignalCount = 7;

struct TensorSpec {
  std::string name;
  std::vector<std::size_t> shape;
  std::size_t offset = 0;  // of its first element in the flat buffer
  std::size_t size = 0;    // elements
  Start start;
  std::string start_stream;  // name of its start's stream: its own, or that of what it copies
  /// The weights of linear layers are [out, in] in `shape` and in the file, but lie in the buffer
  /// as [in, out], so that x·Wᵀ reads them row by row.
  bool transposed = false;
  /// false: has a gradient, but the optimiser leaves it alone (layers.I.residual by default).
  bool trained = true;
};
// The counter tower's tensors come last and are not `trained`: their optimiser is their own.

struct ParameterLayout {
  std::vector<TensorSpec> tensors;  // in the buffer's order
  std::size_t size = 0;             // elements of the flat buffer

  /// nullptr where the variant does not have it.
  [[nodiscard]] const TensorSpec* find(std::string_view name) const;
  /// Offset of a tensor that must exist.
  [[nodiscard]] std::size_t offset(std::string_view name) const;
};

/// Which terms the variant is made of (model/ranker.h puts them together).
struct VariantParts {
  bool position = false;            // λ p θ
  bool sine = false;                // sine path of f
  bool relu = false;                // ReLU path of f
  bool semantic = false;            // f_sem
  bool time_bias = false;           // bias.{position,time}
  bool alibi = false;               // alibi.slope
  bool time_embedding = false;      // time_embedding.{weight,bias}
  bool hierarchy = false;           // f in groups of planes, one a time scale
  bool discovery = false;           // gates on the signals of f and f_sem
  std::size_t position_planes = 0;  // the first planes, which take λ p θ
  std::size_t calendar_planes = 0;  // the last planes, which take 2π (T mod τ)/τ
};
[[nodiscard]] VariantParts variant_parts(const ModelConfig& config);

/// Of the hierarchical variant: planes [first, first + planes) take the f of one time scale.
struct ScaleGroup {
  TimeScale scale = TimeScale::kHour;
  std::size_t first = 0;
  std::size_t planes = 0;
};
/// Scale g of the four (hour, day, week, age) has planes ⌊gP/4⌋ to ⌊(g+1)P/4⌋: the fast planes the
/// short scales. One without planes is left out.
[[nodiscard]] std::vector<ScaleGroup> scale_groups(std::size_t planes);

/// Where the angle networks stand: "rotary", or with per_layer_angles "layers.0.rotary", …,
/// "pooling.rotary". The semantic rows, rotary.lambda and rotary.gate have one place in any case.
[[nodiscard]] std::vector<std::string> angle_prefixes(const ModelConfig& config);

/// The tensors that `config.variant`'s scores depend on, and no others.
[[nodiscard]] ParameterLayout make_layout(const ModelConfig& config);

/// The tensors of one attention with the variant's rotation and logit bias, alone
/// (model/sequence_attention.h): rotary.*, bias.*, alibi.*, attention.*, and
/// rotary.semantic.kind.weight [kinds, semantic_width] where the variant reads the kind.
[[nodiscard]] ParameterLayout make_attention_layout(const ModelConfig& config, std::size_t kinds);

/// Fills the flat buffer with every tensor's start.
void start_tensors(const ParameterLayout& layout, std::uint64_t seed, std::span<float> dense);

}  // namespace sirenfeed::model
