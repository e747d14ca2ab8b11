#include "model/config.h"

#include <algorithm>
#include <array>
#include <boost/json.hpp>
#include <cmath>
#include <set>
#include <utility>

namespace sirenfeed::model {
namespace {

namespace json = boost::json;
using base::ErrorCode;
using base::fail;

constexpr std::array<std::pair<Variant, const char*>, 16> kVariants = {{
    {Variant::kNone, "none"},
    {Variant::kOrdinal, "ordinal"},
    {Variant::kTimeEmbedding, "time_embedding"},
    {Variant::kTorope, "torope"},
    {Variant::kTimeBias, "time_bias"},
    {Variant::kSirenTimeBias, "siren_time_bias"},
    {Variant::kAlibiTime, "alibi_time"},
    {Variant::kSirenAlibiTime, "siren_alibi_time"},
    {Variant::kSirenTemporal, "siren_temporal"},
    {Variant::kSirenSineOnly, "siren_sine_only"},
    {Variant::kSirenReluOnly, "siren_relu_only"},
    {Variant::kSirenSemantic, "siren_semantic"},
    {Variant::kSiren, "siren"},
    {Variant::kSirenLinear, "siren_linear"},
    {Variant::kSirenHierarchical, "siren_hierarchical"},
    {Variant::kSirenDiscovery, "siren_discovery"},
}};

base::Result<void> check_names(const std::vector<std::string>& names, const char* field,
                               std::size_t count_max) {
  if (names.size() > count_max) {
    return fail(ErrorCode::kInvalidArgument, "model config: {} has {} names, at most {}", field,
                names.size(), count_max);
  }
  std::set<std::string_view> seen;
  for (const std::string& name : names) {
    if (name.empty() || !seen.insert(name).second) {
      return fail(ErrorCode::kInvalidArgument,
                  "model config: {} has an empty or repeated name '{}'", field, name);
    }
  }
  return {};
}

base::Result<void> check_towers(const ModelConfig& config) {
  SF_TRY(check_names(config.towers, "towers", 2));
  for (const std::string& tower : config.towers) {
    if (tower == "counter" || tower == "cross") continue;
    return fail(ErrorCode::kInvalidArgument,
                "model config: towers is '{}', expected counter, cross or both", tower);
  }
  SF_TRY(check_names(config.tower_tasks, "tower_tasks", 64));
  for (const std::string& task : config.tower_tasks) {
    if (std::find(config.tasks.begin(), config.tasks.end(), task) != config.tasks.end()) continue;
    return fail(ErrorCode::kInvalidArgument,
                "model config: tower_tasks is '{}', which is no task of the model ({})", task,
                fmt::join(config.tasks, ", "));
  }
  const std::vector<std::string> row = config.context_row_names();
  SF_TRY(check_names(row, "context_names and tower_context_names together", 65536));
  if (config.has_counter_tower() && row.empty()) {
    return fail(ErrorCode::kInvalidArgument,
                "model config: towers is 'counter', which needs context features");
  }
  return {};
}

/// Reads one flat object; the first fault sticks.
class Fields {
 public:
  explicit Fields(const json::object& object) : object_(object) {}

  template <class Int>
  void integer(const char* key, Int& out) {
    const json::value* value = find(key);
    if (value == nullptr) return;
    boost::system::error_code error;
    const Int number = value->to_number<Int>(error);
    if (error) return refuse(key, "an integer in range");
    out = number;
  }

  void real(const char* key, double& out) {
    const json::value* value = find(key);
    if (value == nullptr) return;
    boost::system::error_code error;
    const auto number = value->to_number<double>(error);
    if (error) return refuse(key, "a number");
    out = number;
  }

  void text(const char* key, std::string& out) {
    const json::value* value = find(key);
    if (value == nullptr) return;
    if (!value->is_string()) return refuse(key, "a string");
    out = std::string(std::string_view(value->get_string()));
  }

  void boolean(const char* key, bool& out) {
    const json::value* value = find(key);
    if (value == nullptr) return;
    if (!value->is_bool()) return refuse(key, "true or false");
    out = value->get_bool();
  }

  void names(const char* key, std::vector<std::string>& out) {
    const json::value* value = find(key);
    if (value == nullptr) return;
    out.clear();
    if (!value->is_array()) return refuse(key, "a list of strings");
    for (const json::value& element : value->get_array()) {
      if (!element.is_string()) return refuse(key, "a list of strings");
      out.emplace_back(std::string_view(element.get_string()));
    }
  }

  [[nodiscard]] bool has(const char* key) const { return object_.contains(key); }
  [[nodiscard]] const std::string& fault() const { return fault_; }

 private:
  const json::value* find(const char* key) {
    const json::value* value = object_.if_contains(key);
    if (value == nullptr && fault_.empty()) fault_ = fmt::format("has no key '{}'", key);
    return value;
  }
  void refuse(const char* key, const char* expected) {
    if (fault_.empty()) fault_ = fmt::format("key '{}' is not {}", key, expected);
  }

  const json::object& object_;
  std::string fault_;
};

void read_optional(Fields& fields, ModelConfig& config, std::string& history_kind) {
  if (fields.has("context_surfaces")) fields.names("context_surfaces", config.context_surfaces);
  const std::initializer_list<std::pair<const char*, bool*>> flags = {
      {"residual_learned", &config.residual_learned}, {"lambda_learned", &config.lambda_learned},
      {"omega_learned", &config.omega_learned},       {"paper_init", &config.paper_init},
      {"per_layer_angles", &config.per_layer_angles},
  };
  for (const auto& [key, flag] : flags) {
    if (fields.has(key)) fields.boolean(key, *flag);
  }
  if (fields.has("residual_start")) fields.real("residual_start", config.residual_start);
  if (fields.has("history_kind")) fields.text("history_kind", history_kind);
  if (fields.has("towers")) fields.names("towers", config.towers);
  if (fields.has("tower_tasks")) fields.names("tower_tasks", config.tower_tasks);
  if (fields.has("tower_context_names")) {
    fields.names("tower_context_names", config.tower_context_names);
  }
  if (fields.has("isotonic_knots")) fields.integer("isotonic_knots", config.isotonic_knots);
}

json::array to_array(const std::vector<std::string>& names) {
  json::array array;
  for (const std::string& name : names) array.emplace_back(name);
  return array;
}

}  // namespace

const char* variant_name(Variant variant) noexcept {
  for (const auto& [candidate, name] : kVariants) {
    if (candidate == variant) return name;
  }
  return "unknown";
}

base::Result<Variant> parse_variant(std::string_view name) {
  for (const auto& [variant, candidate] : kVariants) {
    if (name == candidate) return variant;
  }
  return fail(ErrorCode::kInvalidArgument, "unknown model variant '{}'", name);
}

std::vector<Variant> all_variants() {
  std::vector<Variant> variants;
  for (const auto& [variant, name] : kVariants) variants.push_back(variant);
  return variants;
}

const char* history_kind_name(HistoryKind kind) noexcept {
  return kind == HistoryKind::kActions ? "actions" : "exposures";
}

base::Result<HistoryKind> parse_history_kind(std::string_view name) {
  for (const HistoryKind kind : {HistoryKind::kExposures, HistoryKind::kActions}) {
    if (name == history_kind_name(kind)) return kind;
  }
  return fail(ErrorCode::kInvalidArgument, "model history: expected exposures or actions, got '{}'",
              name);
}

base::Result<void> ModelConfig::validate() const {
  const auto in_range = [](const char* field, std::int64_t value, std::int64_t low,
                           std::int64_t high) -> base::Result<void> {
    if (value >= low && value <= high) return {};
    return fail(ErrorCode::kInvalidArgument, "model config: {} is {}, expected {} to {}", field,
                value, low, high);
  };
  SF_TRY(in_range("d_model", d_model, 2, 4096));
  SF_TRY(in_range("heads", heads, 1, d_model / 2));
  if (d_model % heads != 0 || (d_model / heads) % 2 != 0) {
    return fail(ErrorCode::kInvalidArgument,
                "model config: d_model {} must be heads {} times an even width", d_model, heads);
  }
  SF_TRY(in_range("layers", layers, 0, 64));
  SF_TRY(in_range("history_max", history_max, 1, 65536));
  SF_TRY(in_range("angle_width", angle_width, 1, 4096));
  SF_TRY(in_range("angle_hidden_layers", angle_hidden_layers, 1, 16));
  SF_TRY(in_range("semantic_width", semantic_width, 1, 4096));
  // T_ref moves by half of it, and must not have to do so at every token.
  SF_TRY(in_range("time_span_ms", time_span_ms, 3'600'000, std::int64_t{1} << 53));
  SF_TRY(in_range("time_reference_ms", time_reference_ms, -(std::int64_t{1} << 60),
                  std::int64_t{1} << 60));
  SF_TRY(in_range("zone_offset_ms", zone_offset_ms, -86'400'000, 86'400'000));
  SF_TRY(in_range("isotonic_knots", isotonic_knots, 0, 1024));
  if (isotonic_knots == 1) {
    return fail(ErrorCode::kInvalidArgument, "model config: isotonic_knots is 1, expected 0 or 2");
  }
  // Beyond these a float overflows, or all tokens are alike.
  const auto within = [](const char* field, double value, double low,
                         double high) -> base::Result<void> {
    if (value >= low && value <= high) return {};  // not for NaN
    return fail(ErrorCode::kInvalidArgument, "model config: {} is {}, expected {} to {}", field,
                value, low, high);
  };
  SF_TRY(within("omega0", omega0, 1e-6, 1e6));
  SF_TRY(within("base", base, 1, 1e12));
  SF_TRY(within("attention_scale", attention_scale, 1e-6, 1e6));
  SF_TRY(within("residual_start", residual_start, 1e-6, 1e6));
  if (seed >> 63U != 0) {
    return fail(ErrorCode::kInvalidArgument, "model config: seed {} is not below 2^63", seed);
  }
  SF_TRY(check_names(actions, "actions", 31));
  SF_TRY(check_names(tasks, "tasks", 64));
  SF_TRY(check_names(context_names, "context_names", 65536));
  SF_TRY(check_towers(*this));
  if (tasks.empty()) return fail(ErrorCode::kInvalidArgument, "model config: tasks is empty");
  return {};
}

std::vector<std::string> ModelConfig::context_row_names() const {
  std::vector<std::string> names = context_names;
  names.insert(names.end(), tower_context_names.begin(), tower_context_names.end());
  return names;
}

std::string config_to_json(const ModelConfig& config, std::uint64_t context_examples) {
  json::object object;
  object["format"] = 1;
  object["variant"] = variant_name(config.variant);
  object["d_model"] = config.d_model;
  object["heads"] = config.heads;
  object["layers"] = config.layers;
  object["history_max"] = config.history_max;
  object["angle_width"] = config.angle_width;
  object["angle_hidden_layers"] = config.angle_hidden_layers;
  object["semantic_width"] = config.semantic_width;
  object["omega0"] = config.omega0;
  object["base"] = config.base;
  object["attention_scale"] = config.attention_scale;
  object["time_reference_ms"] = config.time_reference_ms;
  object["time_span_ms"] = config.time_span_ms;
  object["zone_offset_ms"] = config.zone_offset_ms;
  object["context_examples"] = context_examples;
  object["seed"] = config.seed;
  object["actions"] = to_array(config.actions);
  object["tasks"] = to_array(config.tasks);
  object["context_names"] = to_array(config.context_names);
  object["context_surfaces"] = to_array(config.context_surfaces);
  object["residual_learned"] = config.residual_learned;
  object["residual_start"] = config.residual_start;
  object["lambda_learned"] = config.lambda_learned;
  object["omega_learned"] = config.omega_learned;
  object["paper_init"] = config.paper_init;
  object["per_layer_angles"] = config.per_layer_angles;
  object["history_kind"] = history_kind_name(config.history_kind);
  object["towers"] = to_array(config.towers);
  object["tower_tasks"] = to_array(config.tower_tasks);
  object["tower_context_names"] = to_array(config.tower_context_names);
  object["isotonic_knots"] = config.isotonic_knots;
  object["key_hash"] = kKeyHash;
  return json::serialize(object);
}

base::Result<ParsedConfig> config_from_json(std::string_view text) {
  boost::system::error_code error;
  const json::value value = json::parse(json::string_view(text.data(), text.size()), error);
  if (error || !value.is_object()) {
    return fail(ErrorCode::kDecode, "model config is not a JSON object");
  }
  Fields fields(value.get_object());
  ParsedConfig parsed;
  ModelConfig& config = parsed.config;
  int format = 0;
  std::string variant;
  fields.integer("format", format);
  fields.text("variant", variant);
  fields.integer("d_model", config.d_model);
  fields.integer("heads", config.heads);
  fields.integer("layers", config.layers);
  fields.integer("history_max", config.history_max);
  fields.integer("angle_width", config.angle_width);
  fields.integer("angle_hidden_layers", config.angle_hidden_layers);
  fields.integer("semantic_width", config.semantic_width);
  fields.real("omega0", config.omega0);
  fields.real("base", config.base);
  fields.real("attention_scale", config.attention_scale);
  fields.integer("time_reference_ms", config.time_reference_ms);
  fields.integer("time_span_ms", config.time_span_ms);
  fields.integer("zone_offset_ms", config.zone_offset_ms);
  fields.integer("context_examples", parsed.context_examples);
  fields.integer("seed", config.seed);
  fields.names("actions", config.actions);
  fields.names("tasks", config.tasks);
  fields.names("context_names", config.context_names);
  std::string history_kind = history_kind_name(config.history_kind);
  read_optional(fields, config, history_kind);
  std::string key_hash = kKeyHash;
  if (fields.has("key_hash")) fields.text("key_hash", key_hash);
  if (!fields.fault().empty()) {
    return fail(ErrorCode::kDecode, "model config {}", fields.fault());
  }
  if (key_hash != kKeyHash) {
    // Every key would miss its row, and nobody would notice.
    return fail(ErrorCode::kDecode, "model config: ids were hashed with '{}', this build hashes {}",
                key_hash, kKeyHash);
  }
  if (format != 1) {
    return fail(ErrorCode::kDecode, "model config has format {}, this build reads 1", format);
  }
  SF_ASSIGN(config.variant, parse_variant(variant));
  SF_ASSIGN(config.history_kind, parse_history_kind(history_kind));
  SF_TRY(config.validate());
  return parsed;
}

}  // namespace sirenfeed::model
