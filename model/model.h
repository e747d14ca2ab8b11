#pragma once
// A model: configuration, dense parameters, embedding tables, running statistics and calibration.
// A plain value: copy it to publish it. Threads: const use from any thread; one writer.
#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/config.h"
#include "model/embedding_table.h"
#include "model/parameters.h"
#include "model/slate.h"

namespace sirenfeed::model {

enum class TableId : std::size_t {
  kItem,
  kTag,
  kAuthor,
  kSemanticTag,
  kSemanticSegment,
  kSemanticAuthor,
  kSemanticSurface,
};
inline constexpr std::size_t kTableCount = 7;
/// As metrics and reports name them, by TableId.
inline constexpr std::array<const char*, kTableCount> kTableNames = {"item",
                                                                     "tag",
                                                                     "author",
                                                                     "semantic_tag",
                                                                     "semantic_segment",
                                                                     "semantic_author",
                                                                     "semantic_surface"};

/// Learned examples behind which mean and std are used; before, ĉ = 0.
inline constexpr std::uint64_t kContextExamplesMin = 128;
inline constexpr float kContextStdMin = 1e-3F;
inline constexpr float kContextClamp = 4.0F;

/// Learned after each batch, in fixed order, by the trainer; no gradient flows into them.
struct Statistics {
  std::vector<float> context_mean;  // [F + F_t], start 0
  std::vector<float> context_std;   // [F + F_t], start 1
  std::vector<float> action_mean;   // [A + 1], none last, start 0
  std::uint64_t context_examples = 0;
  /// Cross tower: upper edges of the first 19 of 20 bins of every feature, [F + F_t, 19] ascending;
  /// start 0; empty without the tower.
  std::vector<float> cross_edges;
};

/// From the mean logit of the towers to the served one (model/calibration.h).
struct Calibration {
  std::vector<float> scale;  // [K], start 1
  std::vector<float> bias;   // [K], start 0
  /// Isotonic layer behind scale and bias, [K, config.isotonic_knots]; empty without it.
  std::vector<float> knot_x;  // strictly ascending
  std::vector<float> knot_y;  // strictly ascending; starts as knot_x
};

template <class T>
struct BasicModel {
  ModelConfig config;
  ParameterLayout layout;
  std::vector<T> dense;  // layout.size elements, embedding.action.weight included
  /// Indexed by TableId. A table that the variant has not has width 0 and stays empty.
  std::array<BasicEmbeddingTable<T>, kTableCount> tables;
  /// Cross tower: weights [K] of each hashed cross; width 0 without the tower.
  BasicEmbeddingTable<T> cross;
  Statistics statistics;
  Calibration calibration;

  [[nodiscard]] BasicEmbeddingTable<T>& table(TableId id) {
    return tables[static_cast<std::size_t>(id)];
  }
  [[nodiscard]] const BasicEmbeddingTable<T>& table(TableId id) const {
    return tables[static_cast<std::size_t>(id)];
  }
  /// A tensor's elements; it must exist.
  [[nodiscard]] std::span<T> tensor(std::string_view name);
  [[nodiscard]] std::span<const T> tensor(std::string_view name) const;
};

using EmbeddingTable = BasicEmbeddingTable<float>;
using Model = BasicModel<float>;
extern template struct BasicModel<float>;
extern template struct BasicModel<double>;

/// A model at its start, with empty tables. kInvalidArgument from config.validate().
[[nodiscard]] base::Result<Model> make_model(const ModelConfig& config);

/// The same model in double, for gradient checks.
[[nodiscard]] BasicModel<double> to_double(const Model& model);

/// While `newest_learned_ms` − T_ref is above S/2: T_ref += S/2 and the first biases of everything
/// that reads t take up half of their last column, which leaves scores unchanged where the clamp
/// does not act. Returns the number of shifts. Call it between batches.
int shift_time_reference(Model& model, std::int64_t newest_learned_ms);

/// Bits of the configured actions, with bit A (none) set when no configured action is.
[[nodiscard]] inline std::uint32_t action_bits_with_none(std::uint32_t bits,
                                                         std::size_t n_actions) {
  const std::uint32_t configured = bits & ((1U << n_actions) - 1U);
  return configured != 0 ? configured : 1U << n_actions;
}

/// Whether an exposure is a token of the model's history (ModelConfig::history_kind).
[[nodiscard]] inline bool is_history_token(const ModelConfig& config, const HistoryToken& token) {
  return config.history_kind == HistoryKind::kExposures ||
         (token.action_bits & ((1U << config.n_actions()) - 1U)) != 0;
}

/// The newest L tokens of a slate's history: those of history[begin …) for which is_history_token
/// holds, `count` of them.
struct HistoryWindow {
  std::size_t begin = 0;
  std::size_t count = 0;
};
[[nodiscard]] HistoryWindow history_window(const ModelConfig& config, const Slate& slate);

/// Checks a slate from outside against the model's shapes: context is [candidates, F] and finite,
/// tag ranges lie in `tags`. kInvalidArgument names the candidate or token.
[[nodiscard]] base::Result<void> check_slate(const ModelConfig& config, const Slate& slate);

}  // namespace sirenfeed::model
