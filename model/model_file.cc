#include "model/model_file.h"

#include "model/file_io.h"
#include "model/safetensors.h"
#include "model/tensor_io.h"

namespace sirenfeed::model {

using base::ErrorCode;
using base::fail;

std::string encode_model(const Model& model) {
  TensorWriter writer;
  writer.add_all_but_tables(model);
  for (const EmbeddingTable* table : tables_of(model)) {
    writer.add_rows(*table, table->sorted_indices());
  }
  return writer.finish(config_to_json(model.config, model.statistics.context_examples));
}

base::Result<Model> decode_model(std::string_view bytes) {
  SF_ASSIGN(const SafetensorsView content, parse_safetensors(bytes));
  SF_ASSIGN(const ParsedConfig parsed, read_config(content));
  // A hostile config must not make us allocate more than its file could fill.
  if (make_layout(parsed.config).size > bytes.size() / sizeof(float)) {
    return fail(ErrorCode::kDecode, "the file is smaller than its config's tensors: truncated");
  }
  SF_ASSIGN(Model model, make_model(parsed.config));
  model.statistics.context_examples = parsed.context_examples;
  TensorReader reader(content);
  SF_TRY(reader.read_all_but_tables(model));
  for (EmbeddingTable* table : tables_of(model)) {
    SF_ASSIGN(const FileRows rows, reader.read_rows(*table));
    put_rows(rows, *table);
  }
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
