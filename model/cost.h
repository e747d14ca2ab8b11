#pragma once
// What a configuration costs: dense parameters, bytes of rows, and the floating-point operations of
// one forward pass, counted by formula from the layout, part by part.
//
// Counting: +, −, ×, ÷ and a comparison are one operation each, so a linear layer [out, in] costs
// 2·out·in a row and out more with a bias; sine, cosine, exponential, logarithm and square root
// count kFunctionFlops. Work on padding is not counted, nor are look-ups and copies.
#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "model/model.h"

namespace sirenfeed::model {

inline constexpr double kFunctionFlops = 16;

/// One request, after the cut to the newest L.
struct SlateShape {
  std::size_t history = 0;     // tokens
  std::size_t candidates = 1;  // tokens
  /// Distinct times and distinct (tags, segment) among all tokens: f and f_sem are evaluated once
  /// each. At most history + candidates.
  std::size_t times = 1;
  std::size_t meanings = 1;
  double tags = 1;     // mean distinct tags of a token
  double actions = 1;  // mean action rows of a history token, none included

  /// Every history token has a time of its own and every token a tag set of its own.
  [[nodiscard]] static SlateShape all_distinct(std::size_t history, std::size_t candidates) {
    return {history, candidates, history + 1, history + candidates, 1, 1};
  }
};

struct PartCost {
  std::string name;            // "tokens", "angles", "bias", "layers", "pooling" or "head"
  std::size_t parameters = 0;  // dense
  double flops = 0;
};

struct ModelCost {
  std::size_t dense_parameters = 0;
  double flops = 0;
  std::vector<PartCost> parts;  // sum to the two above
  /// A row of each table in the file: its key and its floats; 0 where the variant has no such
  /// table.
  std::array<std::size_t, kTableCount> row_bytes{};

  [[nodiscard]] std::size_t dense_bytes() const { return dense_parameters * sizeof(float); }
  /// Of a set of rows, [table] of each.
  [[nodiscard]] std::size_t rows_bytes(const std::array<std::size_t, kTableCount>& rows) const;
};

/// `config` is valid.
[[nodiscard]] ModelCost model_cost(const ModelConfig& config, const SlateShape& shape);

/// Rows of each table that the model has now.
[[nodiscard]] std::array<std::size_t, kTableCount> row_counts(const Model& model);

}  // namespace sirenfeed::model
