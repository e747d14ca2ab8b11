#include "model/tensor_io.h"

#include <cmath>
#include <cstring>

#include "model/calibration.h"
#include "model/cross_tower.h"

namespace sirenfeed::model {
namespace {

using base::ErrorCode;
using base::fail;

template <class T>
std::string_view as_bytes(std::span<const T> values) {
  return {reinterpret_cast<const char*>(values.data()), values.size_bytes()};
}

bool has_none(const EmbeddingTable& table) {
  return table.name() == "embedding.tag" || table.name() == "embedding.author" ||
         table.name() == "cross";
}

std::vector<std::size_t> knots_shape(const Calibration& calibration) {
  return {calibration.scale.size(), calibration.knot_x.size() / calibration.scale.size()};
}

tl::unexpected<base::Error> not_finite(const std::string& name) {
  return fail(ErrorCode::kCorrupt, "tensor '{}' has an element that is not finite", name);
}

tl::unexpected<base::Error> wrong_shape(const std::string& name, const TensorView& tensor,
                                        const std::vector<std::size_t>& expected) {
  return fail(ErrorCode::kCorrupt, "tensor '{}' has shape [{}], expected [{}]", name,
              fmt::join(tensor.shape, ", "), fmt::join(expected, ", "));
}

}  // namespace

void TensorWriter::add(const std::string& name, std::vector<std::size_t> shape,
                       std::span<const float> values) {
  content_.tensors[name] = {Dtype::kF32, std::move(shape), as_bytes(values)};
}

void TensorWriter::add_dense(const TensorSpec& spec, std::span<const float> values) {
  if (!spec.transposed) return add(spec.name, spec.shape, values);
  const std::size_t rows = spec.shape[0];
  const std::size_t cols = spec.shape[1];
  std::vector<float>& file_order = floats_.emplace_back(values.size());
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t c = 0; c < cols; ++c) file_order[r * cols + c] = values[c * rows + r];
  }
  add(spec.name, spec.shape, file_order);
}

void TensorWriter::add_keys(const std::string& name, std::vector<std::int64_t> keys) {
  const std::vector<std::int64_t>& kept = keys_.emplace_back(std::move(keys));
  content_.tensors[name] = {
      Dtype::kI64, {kept.size()}, as_bytes(std::span<const std::int64_t>(kept))};
}

void TensorWriter::add_rows(const EmbeddingTable& table,
                            const std::vector<std::uint32_t>& sorted_indices) {
  std::vector<std::int64_t> keys;
  std::vector<float>& rows = floats_.emplace_back();
  keys.reserve(sorted_indices.size());
  rows.reserve(sorted_indices.size() * table.width());
  for (const std::uint32_t index : sorted_indices) {
    keys.push_back(static_cast<std::int64_t>(table.key_at(index)));
    const std::span<const float> row = table.row_at(index);
    rows.insert(rows.end(), row.begin(), row.end());
  }
  add(table.name() + ".weight", {keys.size(), table.width()}, rows);
  add_keys(table.name() + ".keys", std::move(keys));
}

void TensorWriter::add_all_but_tables(const Model& model) {
  for (const TensorSpec& spec : model.layout.tensors) {
    add_dense(spec, std::span(model.dense).subspan(spec.offset, spec.size));
  }
  const Statistics& statistics = model.statistics;
  const Calibration& calibration = model.calibration;
  add("context.mean", {statistics.context_mean.size()}, statistics.context_mean);
  add("context.std", {statistics.context_std.size()}, statistics.context_std);
  add("action.mean", {statistics.action_mean.size()}, statistics.action_mean);
  add("calibration.scale", {calibration.scale.size()}, calibration.scale);
  add("calibration.bias", {calibration.bias.size()}, calibration.bias);
  if (model.cross.width() > 0) {
    add("cross.edges", {statistics.cross_edges.size() / kCrossEdges, kCrossEdges},
        statistics.cross_edges);
  }
  if (calibration.knot_x.empty()) return;
  const std::vector<std::size_t> shape = knots_shape(calibration);
  add("calibration.knots.x", shape, calibration.knot_x);
  add("calibration.knots.y", shape, calibration.knot_y);
}

std::string TensorWriter::finish(std::string config) {
  content_.metadata["config"] = std::move(config);
  return write_safetensors(content_);
}

base::Result<void> TensorReader::read(const std::string& name,
                                      const std::vector<std::size_t>& shape, std::span<float> out) {
  SF_ASSIGN(const TensorView* tensor, find(name, Dtype::kF32));
  if (tensor->shape != shape) return wrong_shape(name, *tensor, shape);
  if (tensor->bytes.empty()) return {};
  std::memcpy(out.data(), tensor->bytes.data(), tensor->bytes.size());
  for (const float value : out) {
    if (!std::isfinite(value)) return not_finite(name);
  }
  return {};
}

base::Result<void> TensorReader::read_dense(const TensorSpec& spec, std::span<float> out) {
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

base::Result<std::vector<std::int64_t>> TensorReader::read_keys(const std::string& name) {
  SF_ASSIGN(const TensorView* tensor, find(name, Dtype::kI64));
  if (tensor->shape.size() != 1) {
    return fail(ErrorCode::kCorrupt, "tensor '{}' is not a list", name);
  }
  std::vector<std::int64_t> keys(tensor->shape[0]);
  if (!keys.empty()) std::memcpy(keys.data(), tensor->bytes.data(), tensor->bytes.size());
  for (std::size_t i = 1; i < keys.size(); ++i) {
    if (keys[i] <= keys[i - 1]) {
      return fail(ErrorCode::kCorrupt, "tensor '{}' is not in ascending order", name);
    }
  }
  return keys;
}

base::Result<FileRows> TensorReader::read_rows(const EmbeddingTable& table) {
  const std::string keys_name = table.name() + ".keys";
  const std::string name = table.name() + ".weight";
  FileRows rows;
  SF_ASSIGN(rows.keys, read_keys(keys_name));
  for (const std::int64_t key : rows.keys) {
    if (key == 0 && !has_none(table)) {
      return fail(ErrorCode::kCorrupt, "tensor '{}' has key 0, which this table has not",
                  keys_name);
    }
  }
  SF_ASSIGN(const TensorView* tensor, find(name, Dtype::kF32));
  const std::vector<std::size_t> shape{rows.keys.size(), table.width()};
  if (tensor->shape != shape) return wrong_shape(name, *tensor, shape);
  for (std::size_t at = 0; at < tensor->bytes.size(); at += sizeof(float)) {
    float value = 0;
    std::memcpy(&value, tensor->bytes.data() + at, sizeof value);
    if (!std::isfinite(value)) return not_finite(name);
  }
  rows.values = tensor->bytes;
  return rows;
}

base::Result<void> TensorReader::read_all_but_tables(Model& model) {
  for (const TensorSpec& spec : model.layout.tensors) {
    SF_TRY(read_dense(spec, std::span(model.dense).subspan(spec.offset, spec.size)));
  }
  const auto read_list = [&](const std::string& name, std::vector<float>& list) {
    return read(name, {list.size()}, list);
  };
  SF_TRY(read_list("context.mean", model.statistics.context_mean));
  SF_TRY(read_list("context.std", model.statistics.context_std));
  SF_TRY(read_list("action.mean", model.statistics.action_mean));
  SF_TRY(read_list("calibration.scale", model.calibration.scale));
  SF_TRY(read_list("calibration.bias", model.calibration.bias));
  return read_towers(model);
}

/// What the cross tower and the isotonic layer add; the counter tower's tensors are dense ones.
base::Result<void> TensorReader::read_towers(Model& model) {
  if (model.cross.width() > 0) {
    std::vector<float>& edges = model.statistics.cross_edges;
    SF_TRY(read("cross.edges", {edges.size() / kCrossEdges, kCrossEdges}, edges));
  }
  Calibration& calibration = model.calibration;
  if (calibration.knot_x.empty()) return {};
  const std::vector<std::size_t> shape = knots_shape(calibration);
  SF_TRY(read("calibration.knots.x", shape, calibration.knot_x));
  SF_TRY(read("calibration.knots.y", shape, calibration.knot_y));
  if (knots_ascend(calibration)) return {};
  return fail(ErrorCode::kCorrupt, "tensor 'calibration.knots' does not ascend");
}

base::Result<void> TensorReader::check_all_known() const {
  for (const auto& [name, tensor] : content_.tensors) {
    if (!known_.contains(name)) {
      return fail(ErrorCode::kCorrupt, "unknown tensor '{}' for this variant", name);
    }
  }
  return {};
}

base::Result<const TensorView*> TensorReader::find(const std::string& name, Dtype dtype) {
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

std::vector<EmbeddingTable*> tables_of(Model& model) {
  std::vector<EmbeddingTable*> tables;
  for (EmbeddingTable& table : model.tables) {
    if (table.width() > 0) tables.push_back(&table);
  }
  if (model.cross.width() > 0) tables.push_back(&model.cross);
  return tables;
}

std::vector<const EmbeddingTable*> tables_of(const Model& model) {
  std::vector<const EmbeddingTable*> tables;
  for (const EmbeddingTable& table : model.tables) {
    if (table.width() > 0) tables.push_back(&table);
  }
  if (model.cross.width() > 0) tables.push_back(&model.cross);
  return tables;
}

void put_rows(const FileRows& rows, EmbeddingTable& table) {
  const std::size_t row_bytes = table.width() * sizeof(float);
  table.reserve(table.size() + rows.keys.size());
  for (std::size_t i = 0; i < rows.keys.size(); ++i) {
    const std::uint32_t index = table.find_or_create(static_cast<Key>(rows.keys[i]));
    std::memcpy(table.row_at(index).data(), rows.values.data() + i * row_bytes, row_bytes);
  }
}

base::Result<ParsedConfig> read_config(const SafetensorsView& content) {
  const auto text = content.metadata.find("config");
  if (text == content.metadata.end()) {
    return fail(ErrorCode::kDecode, "the file has no metadata key 'config'");
  }
  return config_from_json(text->second);
}

}  // namespace sirenfeed::model
