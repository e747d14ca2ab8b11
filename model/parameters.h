#pragma once
// The shape table: every dense tensor's name, shape, offset in the one flat buffer, and start. The
// optimiser, the checkpoint, the file and the gradient check are one loop over it each.
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "model/config.h"
#include "model/starts.h"

namespace sirenfeed::model {

struct TensorSpec {
  std::string name;
  std::vector<std::size_t> shape;
  std::size_t offset = 0;  // of its first element in the flat buffer
  std::size_t size = 0;    // elements
  Start start;
  /// false: has a gradient, but the optimiser leaves it alone (layers.I.residual by default).
  bool trained = true;
};

struct ParameterLayout {
  std::vector<TensorSpec> tensors;  // in the buffer's order
  std::size_t size = 0;             // elements of the flat buffer

  /// nullptr where the variant does not have it.
  [[nodiscard]] const TensorSpec* find(std::string_view name) const;
  /// Offset of a tensor that must exist.
  [[nodiscard]] std::size_t offset(std::string_view name) const;
};

/// The tensors that `config.variant`'s scores depend on, and no others.
[[nodiscard]] ParameterLayout make_layout(const ModelConfig& config);

}  // namespace sirenfeed::model
