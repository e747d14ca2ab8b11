#include "model/model_file.h"

#include <cmath>
#include <cstring>
#include <deque>
#include <set>

#include "model/calibration.h"
#include "model/cross_tower.h"
#include "model/file_io.h"
#include "model/safetensors.h"

namespace sirenfeed::model {
namespace {

using base::ErrorCode;
using base::fail;

/// Collects tensors for writing; owns the bytes that must be rearranged.
class Writer {
 public:
  void add(const std::string& name, std::vector<std::size_t> shape, std::span<const float> values) {
    content_.tensors[name] = {Dtype::kF32, std::move(shape), as_bytes(values)};
  }

  void add_dense(const TensorSpec& spec, std::span<const float> values) {
    if (!spec.transposed) return add(spec.name, spec.shape, values);
    const std::size_t rows = spec.shape[0];
    const std::size_t cols = spec.shape[1];
    std::vector<float>& file_order = floats_.emplace_back(values.size());
    for (std::size_t r = 0; r < rows; ++r) {
      for (std::size_t c = 0; c < cols; ++c) file_order[r * cols + c] = values[c * rows + r];
    }
    add(spec.name, spec.shape, file_order);
  }

  void add_table(const EmbeddingTable& table) {
    std::vector<std::int64_t>& keys = keys_.emplace_back();
    std::vector<float>& rows = floats_.emplace_back();
    rows.reserve(table.size() * table.width());
    for (const std::uint32_t index : table.sorted_indices()) {
      keys.push_back(static_cast<std::int64_t>(table.key_at(index)));
      const std::span<const float> row = table.row_at(index);
      rows.insert(rows.end(), row.begin(), row.end());
    }
    content_.tensors[table.name() + ".keys"] = {
        Dtype::kI64, {keys.size()}, as_bytes(std::span<const std::int64_t>(keys))};
    add(table.name() + ".weight", {keys.size(), table.width()}, rows);
  }

  [[nodiscard]] std::string finish(std::string config) {
    content_.metadata["config"] = std::move(config);
    return write_safetensors(content_);
  }

 private:
  template <class T>
  static std::string_view as_bytes(std::span<const T> values) {
    return {reinterpret_cast<const char*>(values.data()), values.size_bytes()};
  }

  SafetensorsView content_;
  std::deque<std::vector<float>> floats_;
  std::deque<std::vector<std::int64_t>> keys_;
};

/// Hands out tensors by name with every check; what is never asked for is unknown.
class Reader {
 public:
  explicit Reader(const SafetensorsView& content) : content_(content) {}

  base::Result<void> read(const std::string& name, const std::vector<std::size_t>& shape,
                          std::span<float> out) {
    SF_ASSIGN(const TensorView* tensor, find(name, Dtype::kF32));
    if (tensor->shape != shape) {
      return fail(ErrorCode::kCorrupt, "tensor '{}' has shape [{}], expected [{}]", name,
                  fmt::join(tensor->shape, ", "), fmt::join(shape, ", "));
    }
    if (tensor->bytes.empty()) return {};
    std::memcpy(out.data(), tensor->bytes.data(), tensor->bytes.size());
    for (const float value : out) {
      if (!std::isfinite(value)) {
        return fail(ErrorCode::kCorrupt, "tensor '{}' has an element that is not finite", name);
      }
    }
    return {};
  }

  base::Result<void> read_dense(const TensorSpec& spec, std::span<float> out) {
    if (!spec.transposed) return read(spec.name, spec.shape, out);
    std::vector<float> file_order(spec.size);
    SF_TRY(read(spec.name, spec.shape, file_order));
    const std::size_t rows = spec.shape[0];
    const std::size_t cols = spec.shape[1];
    for (std::size_t r = 0; r < rows; ++r) {
      for (std::size_t c = 0; c < cols; ++c) out[c * rows + r] = file_order[r * cols + c];
    }
    return {};
  }

  base::Result<void> read_table(EmbeddingTable& table, bool may_have_none) {
    const std::string keys_name = table.name() + ".keys";
    SF_ASSIGN(const TensorView* keys_tensor, find(keys_name, Dtype::kI64));
    if (keys_tensor->shape.size() != 1) {
      return fail(ErrorCode::kCorrupt, "tensor '{}' is not a list", keys_name);
    }
    std::vector<std::int64_t> keys(keys_tensor->shape[0]);
    if (!keys.empty())
      std::memcpy(keys.data(), keys_tensor->bytes.data(), keys_tensor->bytes.size());
    std::vector<float> rows(keys.size() * table.width());
    SF_TRY(read(table.name() + ".weight", {keys.size(), table.width()}, rows));
    table.reserve(keys.size());
    for (std::size_t i = 0; i < keys.size(); ++i) {
      if (i > 0 && keys[i] <= keys[i - 1]) {
        return fail(ErrorCode::kCorrupt, "tensor '{}' is not in ascending order", keys_name);
      }
      if (keys[i] == 0 && !may_have_none) {
        return fail(ErrorCode::kCorrupt, "tensor '{}' has key 0, which this table has not",
                    keys_name);
      }
      const std::uint32_t index = table.find_or_create(static_cast<Key>(keys[i]));
      std::memcpy(table.row_at(index).data(), rows.data() + i * table.width(),
                  table.width() * sizeof(float));
    }
    return {};
  }

  [[nodiscard]] base::Result<void> check_all_known() const {
    for (const auto& [name, tensor] : content_.tensors) {
      if (!known_.contains(name)) {
        return fail(ErrorCode::kCorrupt, "unknown tensor '{}' for this variant", name);
      }
    }
    return {};
  }

 private:
  base::Result<const TensorView*> find(const std::string& name, Dtype dtype) {
    const auto found = content_.tensors.find(name);
    if (found == content_.tensors.end()) {
      return fail(ErrorCode::kCorrupt, "tensor '{}' is missing", name);
    }
    if (found->second.dtype != dtype) {
      return fail(ErrorCode::kCorrupt, "tensor '{}' has the wrong dtype, expected {}", name,
                  dtype == Dtype::kF32 ? "F32" : "I64");
    }
    known_.insert(name);
    return &found->second;
  }

  const SafetensorsView& content_;
  std::set<std::string> known_;
};

/// What the cross tower and the isotonic layer add; the counter tower's tensors are dense ones.
base::Result<void> read_towers(Reader& reader, Model& model) {
  if (model.cross.width() > 0) {
    SF_TRY(reader.read_table(model.cross, true));
    std::vector<float>& edges = model.statistics.cross_edges;
    SF_TRY(reader.read("cross.edges", {edges.size() / kCrossEdges, kCrossEdges}, edges));
  }
  Calibration& calibration = model.calibration;
  if (calibration.knot_x.empty()) return {};
  const std::vector<std::size_t> shape = {calibration.scale.size(),
                                          calibration.knot_x.size() / calibration.scale.size()};
  SF_TRY(reader.read("calibration.knots.x", shape, calibration.knot_x));
  SF_TRY(reader.read("calibration.knots.y", shape, calibration.knot_y));
  if (!knots_ascend(calibration)) {
    return fail(ErrorCode::kCorrupt, "tensor 'calibration.knots' does not ascend");
  }
  return {};
}

}  // namespace

std::string encode_model(const Model& model) {
  Writer writer;
  for (const TensorSpec& spec : model.layout.tensors) {
    writer.add_dense(spec, std::span(model.dense).subspan(spec.offset, spec.size));
  }
  for (const EmbeddingTable& table : model.tables) {
    if (table.width() > 0) writer.add_table(table);
  }
  const Statistics& statistics = model.statistics;
  const Calibration& calibration = model.calibration;
  if (model.cross.width() > 0) {
    writer.add_table(model.cross);
    writer.add("cross.edges", {statistics.cross_edges.size() / kCrossEdges, kCrossEdges},
               statistics.cross_edges);
  }
  if (!calibration.knot_x.empty()) {
    const std::vector<std::size_t> shape = {calibration.scale.size(),
                                            calibration.knot_x.size() / calibration.scale.size()};
    writer.add("calibration.knots.x", shape, calibration.knot_x);
    writer.add("calibration.knots.y", shape, calibration.knot_y);
  }
  writer.add("context.mean", {statistics.context_mean.size()}, statistics.context_mean);
  writer.add("context.std", {statistics.context_std.size()}, statistics.context_std);
  writer.add("action.mean", {statistics.action_mean.size()}, statistics.action_mean);
  writer.add("calibration.scale", {calibration.scale.size()}, calibration.scale);
  writer.add("calibration.bias", {calibration.bias.size()}, calibration.bias);
  return writer.finish(config_to_json(model.config, statistics.context_examples));
}

base::Result<Model> decode_model(std::string_view bytes) {
  SF_ASSIGN(const SafetensorsView content, parse_safetensors(bytes));
  const auto config_text = content.metadata.find("config");
  if (config_text == content.metadata.end()) {
    return fail(ErrorCode::kDecode, "the file has no metadata key 'config'");
  }
  SF_ASSIGN(const ParsedConfig parsed, config_from_json(config_text->second));
  // A hostile config must not make us allocate more than its file could fill.
  if (make_layout(parsed.config).size > bytes.size() / sizeof(float)) {
    return fail(ErrorCode::kDecode, "the file is smaller than its config's tensors: truncated");
  }
  SF_ASSIGN(Model model, make_model(parsed.config));
  Reader reader(content);
  for (const TensorSpec& spec : model.layout.tensors) {
    SF_TRY(reader.read_dense(spec, std::span(model.dense).subspan(spec.offset, spec.size)));
  }
  for (EmbeddingTable& table : model.tables) {
    const bool none = table.name() == "embedding.tag" || table.name() == "embedding.author";
    if (table.width() > 0) SF_TRY(reader.read_table(table, none));
  }
  Statistics& statistics = model.statistics;
  statistics.context_examples = parsed.context_examples;
  const auto read_list = [&](const std::string& name, std::vector<float>& list) {
    return reader.read(name, {list.size()}, list);
  };
  SF_TRY(read_list("context.mean", statistics.context_mean));
  SF_TRY(read_list("context.std", statistics.context_std));
  SF_TRY(read_list("action.mean", statistics.action_mean));
  SF_TRY(read_list("calibration.scale", model.calibration.scale));
  SF_TRY(read_list("calibration.bias", model.calibration.bias));
  SF_TRY(read_towers(reader, model));
  SF_TRY(reader.check_all_known());
  return model;
}

base::Result<void> save_model(const Model& model, const std::string& path) {
  return write_file(path, encode_model(model));
}

base::Result<Model> load_model(const std::string& path) {
  SF_ASSIGN(const std::string bytes, read_file(path));
  auto model = decode_model(bytes);
  if (!model) return fail(model.error().code, "{}: {}", path, model.error().message);
  return model;
}

}  // namespace sirenfeed::model
