#pragma once
// The tensors of a model into a safetensors file and out of one, with every check: what
// model_file.h and model_delta.h have in common.
#include <cstdint>
#include <deque>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/model.h"
#include "model/safetensors.h"

namespace sirenfeed::model {

/// Collects tensors; owns the bytes that must be rearranged, borrows the others until finish().
class TensorWriter {
 public:
  void add(const std::string& name, std::vector<std::size_t> shape, std::span<const float> values);
  /// In the file's order, [out, in].
  void add_dense(const TensorSpec& spec, std::span<const float> values);
  void add_keys(const std::string& name, std::vector<std::int64_t> keys);
  /// NAME.keys and NAME.weight: the rows of these numbers, sorted by key as int64.
  void add_rows(const EmbeddingTable& table, const std::vector<std::uint32_t>& sorted_indices);
  /// Everything of a model but its tables: dense tensors, statistics, calibration.
  void add_all_but_tables(const Model& model);

  /// `config`: the metadata of that name.
  [[nodiscard]] std::string finish(std::string config);

 private:
  SafetensorsView content_;
  std::deque<std::vector<float>> floats_;
  std::deque<std::vector<std::int64_t>> keys_;
};

/// Rows of a file: keys strictly ascending as int64, values finite.
struct FileRows {
  std::vector<std::int64_t> keys;
  std::string_view values;  // [keys, width] floats, borrowed and not aligned
};

/// Hands out tensors by name; what is never asked for is unknown. kCorrupt names the tensor.
class TensorReader {
 public:
  explicit TensorReader(const SafetensorsView& content) : content_(content) {}

  [[nodiscard]] base::Result<void> read(const std::string& name,
                                        const std::vector<std::size_t>& shape,
                                        std::span<float> out);
  [[nodiscard]] base::Result<void> read_dense(const TensorSpec& spec, std::span<float> out);
  /// A list of keys, strictly ascending.
  [[nodiscard]] base::Result<std::vector<std::int64_t>> read_keys(const std::string& name);
  /// NAME.keys and NAME.weight; key 0 (none) only where the table has it.
  [[nodiscard]] base::Result<FileRows> read_rows(const EmbeddingTable& table);
  /// The counterpart of TensorWriter's; the model gives the shapes.
  [[nodiscard]] base::Result<void> read_all_but_tables(Model& model);
  [[nodiscard]] base::Result<void> check_all_known() const;

 private:
  base::Result<void> read_towers(Model& model);
  base::Result<const TensorView*> find(const std::string& name, Dtype dtype);

  const SafetensorsView& content_;
  std::set<std::string> known_;
};

/// Every table that the variant has, the cross tower's last.
[[nodiscard]] std::vector<EmbeddingTable*> tables_of(Model& model);
[[nodiscard]] std::vector<const EmbeddingTable*> tables_of(const Model& model);

/// Writes rows into a table, made where they are absent.
void put_rows(const FileRows& rows, EmbeddingTable& table);

/// The file's configuration (metadata `config`). kDecode where there is none.
[[nodiscard]] base::Result<ParsedConfig> read_config(const SafetensorsView& content);

}  // namespace sirenfeed::model
