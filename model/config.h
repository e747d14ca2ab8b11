#pragma once
// Everything that fixes a model's shape and meaning; travels inside the model file as its metadata
// `config`, so that the file alone is enough to score (docs/FORMATS.md, model.safetensors).
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace sirenfeed::model {

/// What turns query and key, and with which signals. Names: variant_name.
enum class Variant {
  kNone,
  kOrdinal,
  kTimeEmbedding,
  kTorope,
  kTimeBias,
  kSirenTimeBias,
  kAlibiTime,
  kSirenAlibiTime,
  kSirenTemporal,
  kSirenSineOnly,
  kSirenReluOnly,
  kSirenSemantic,
  kSiren,
  kSirenLinear,
  kSirenHierarchical,
  kSirenDiscovery,
};

/// Which exposures are history tokens. kActions: only those with a configured action known before
/// the request; they are picked before the cut to the newest L, and p counts what is left.
enum class HistoryKind { kExposures, kActions };

/// "siren", "ordinal", …: as in configuration, the file and reports.
[[nodiscard]] const char* variant_name(Variant variant) noexcept;
[[nodiscard]] base::Result<Variant> parse_variant(std::string_view name);
/// Every variant, in the order of the enum.
[[nodiscard]] std::vector<Variant> all_variants();

/// "exposures" or "actions".
[[nodiscard]] const char* history_kind_name(HistoryKind kind) noexcept;
[[nodiscard]] base::Result<HistoryKind> parse_history_kind(std::string_view name);

struct ModelConfig {
  Variant variant = Variant::kSiren;
  int d_model = 32;
  int heads = 2;
  int layers = 1;
  int history_max = 128;          // L, tokens
  int angle_width = 16;           // m of both paths
  int angle_hidden_layers = 2;    // of each path
  int semantic_width = 16;        // of the tags' and segments' semantic rows
  double omega0 = 3.0;            // frequency scale of the sine paths
  double base = 100'000.0;        // θ_j = base^(−2j/d_k)
  double attention_scale = 0.25;  // the factor on q·k itself; 1/√d_k at the default shape
  /// T_ref. 0 means not set yet: whoever learns the first example sets it to a time near it.
  std::int64_t time_reference_ms = 0;
  std::int64_t time_span_ms = 42LL * 86'400'000;  // S
  std::int64_t zone_offset_ms = 0;  // added before the day's and week's floor-mod only
  std::vector<std::string> actions = {"click", "long_view", "like"};  // at most 31
  std::vector<std::string> tasks = {"click", "long_view", "like"};
  std::vector<std::string> context_names;     // F names, in the order of Slate::context
  std::vector<std::string> context_surfaces;  // values behind the surface one-hot features
  bool residual_learned = false;              // whether layers.I.residual is trained
  std::uint64_t seed = 1;                     // of every start value; JSON number below 2^63
  double residual_start = 0.1;                // r: start of layers.I.residual
  bool lambda_learned = true;                 // whether rotary.lambda is trained
  bool omega_learned = true;                  // whether ω and ω^sem are trained
  /// Last layers of the angle paths start as SIREN's do instead of at 0 (docs/FORMATS.md): step 0
  /// is then no longer ordinary RoPE.
  bool paper_init = false;
  /// Every block and the pooling have angle networks and ω of their own; the semantic rows, λ and
  /// the discovery gates stay shared.
  bool per_layer_angles = false;
  HistoryKind history_kind = HistoryKind::kExposures;

  /// Towers whose logits are averaged with the transformer's (model/towers.h): "counter", "cross".
  std::vector<std::string> towers;
  /// Tasks whose logit is averaged with the towers'; the others are the transformer's alone. Empty:
  /// all. A tower that has no signal for a task only pulls its mean towards the rate.
  std::vector<std::string> tower_tasks;
  /// F_t names that stand behind context_names in every row of Slate::context and that only the
  /// towers read.
  std::vector<std::string> tower_context_names;
  int isotonic_knots = 0;  // of each task's isotonic calibration; 0: scale and bias calibrate

  [[nodiscard]] std::size_t n_actions() const { return actions.size(); }
  [[nodiscard]] std::size_t n_tasks() const { return tasks.size(); }
  [[nodiscard]] std::size_t n_context() const { return context_names.size(); }
  /// F + F_t: columns of Slate::context and of the running mean and std.
  [[nodiscard]] std::size_t context_row_width() const {
    return context_names.size() + tower_context_names.size();
  }
  /// The names of Slate::context's columns: context_names, then tower_context_names.
  [[nodiscard]] std::vector<std::string> context_row_names() const;
  /// Name of a column of Slate::context.
  [[nodiscard]] const std::string& context_name(std::size_t column) const {
    const std::size_t n = context_names.size();
    return column < n ? context_names[column] : tower_context_names[column - n];
  }
  [[nodiscard]] bool has_counter_tower() const { return has_tower("counter"); }
  [[nodiscard]] bool has_cross_tower() const { return has_tower("cross"); }
  [[nodiscard]] int head_width() const { return d_model / heads; }  // d_k
  [[nodiscard]] int planes() const { return head_width() / 2; }     // P
  /// Width of B: heads × (actions + none).
  [[nodiscard]] std::size_t pooled_actions() const {
    return static_cast<std::size_t>(heads) * (n_actions() + 1);
  }

  /// Names the first bad field.
  [[nodiscard]] base::Result<void> validate() const;

 private:
  [[nodiscard]] bool has_tower(std::string_view name) const {
    return std::find(towers.begin(), towers.end(), name) != towers.end();
  }
};

/// How ids become keys, as the file's key `key_hash` says it.
inline constexpr const char* kKeyHash = "xxh3_64";

/// The flat JSON of the file's metadata `config`. `context_examples` (how many learned examples are
/// behind the running statistics) is a statistic, but stands in the same object.
[[nodiscard]] std::string config_to_json(const ModelConfig& config, std::uint64_t context_examples);

struct ParsedConfig {
  ModelConfig config;
  std::uint64_t context_examples = 0;
};
/// The keys that docs/FORMATS.md marks optional may be absent and then mean the struct's default;
/// all others are required; keys that it does not list are ignored. kDecode naming the key,
/// kInvalidArgument from validate().
[[nodiscard]] base::Result<ParsedConfig> config_from_json(std::string_view json);

}  // namespace sirenfeed::model
