#include "model/model_delta.h"

#include <algorithm>

#include "base/check.h"
#include "model/safetensors.h"
#include "model/tensor_io.h"

namespace sirenfeed::model {

using base::ErrorCode;
using base::fail;

bool same_shape(const ModelConfig& a, const ModelConfig& b) {
  ModelConfig moved = a;
  moved.time_reference_ms = b.time_reference_ms;
  return config_to_json(moved, 0) == config_to_json(b, 0);
}

std::string encode_delta(const Model& before, const Model& model) {
  SF_CHECK(same_shape(before.config, model.config));
  TensorWriter writer;
  writer.add_all_but_tables(model);
  const std::vector<const EmbeddingTable*> tables = tables_of(model);
  const std::vector<const EmbeddingTable*> tables_before = tables_of(before);
  for (std::size_t t = 0; t < tables.size(); ++t) {
    const EmbeddingTable& table = *tables[t];
    TableChanges changes = table.changes_since(*tables_before[t]);
    std::sort(changes.written.begin(), changes.written.end(),
              [&](std::uint32_t a, std::uint32_t b) {
                return static_cast<std::int64_t>(table.key_at(a)) <
                       static_cast<std::int64_t>(table.key_at(b));
              });
    writer.add_rows(table, changes.written);
    std::vector<std::int64_t> erased(changes.erased.begin(), changes.erased.end());
    std::sort(erased.begin(), erased.end());
    writer.add_keys(table.name() + ".erased", std::move(erased));
  }
  return writer.finish(config_to_json(model.config, model.statistics.context_examples));
}

namespace {

struct TableDelta {
  FileRows rows;
  std::vector<std::int64_t> erased;
};

/// The model with everything new but its tables, and what is to be done to these, in the order of
/// tables_of.
base::Result<Model> read_delta(const Model& before, const SafetensorsView& content,
                               std::vector<TableDelta>& tables) {
  SF_ASSIGN(const ParsedConfig parsed, read_config(content));
  if (!same_shape(before.config, parsed.config)) {
    return fail(ErrorCode::kCorrupt, "the delta is of a model with another configuration");
  }
  Model model = before;
  model.config = parsed.config;
  model.statistics.context_examples = parsed.context_examples;
  TensorReader reader(content);
  SF_TRY(reader.read_all_but_tables(model));
  for (const EmbeddingTable* table : tables_of(before)) {
    TableDelta& delta = tables.emplace_back();
    SF_ASSIGN(delta.rows, reader.read_rows(*table));
    SF_ASSIGN(delta.erased, reader.read_keys(table->name() + ".erased"));
  }
  SF_TRY(reader.check_all_known());
  return model;
}

}  // namespace

base::Result<void> check_delta(const Model& before, std::string_view bytes) {
  SF_ASSIGN(const SafetensorsView content, parse_safetensors(bytes));
  std::vector<TableDelta> tables;
  SF_TRY(read_delta(before, content, tables));
  return {};
}

base::Result<Model> apply_delta(const Model& before, std::string_view bytes) {
  SF_ASSIGN(const SafetensorsView content, parse_safetensors(bytes));
  std::vector<TableDelta> deltas;
  SF_ASSIGN(Model model, read_delta(before, content, deltas));
  const std::vector<EmbeddingTable*> tables = tables_of(model);
  for (std::size_t t = 0; t < tables.size(); ++t) {
    EmbeddingTable& table = *tables[t];
    for (const std::int64_t key : deltas[t].erased) {
      if (table.erase(static_cast<Key>(key)) == kNoRow) {
        return fail(ErrorCode::kCorrupt, "the delta erases {} {:016x}, which has no row",
                    table.name(), static_cast<Key>(key));
      }
    }
    put_rows(deltas[t].rows, table);
  }
  return model;
}

std::size_t full_file_bytes(const Model& model) {
  std::size_t bytes = model.dense.size() * sizeof(float);
  for (const EmbeddingTable* table : tables_of(model)) {
    bytes += table->size() * (sizeof(Key) + table->width() * sizeof(float));
  }
  return bytes;
}

}  // namespace sirenfeed::model
