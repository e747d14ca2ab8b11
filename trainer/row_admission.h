#pragma once
// Which keys get a row: those that were seen in enough examples.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/model.h"
#include "trainer/count_sketch.h"
#include "trainer/decoded_example.h"

namespace sirenfeed::trainer {

/// Counts, for every key without a row, the examples in which it was seen: as candidate or among
/// the history tokens that the model reads, their tags, authors and surfaces, and the user's
/// segment. With `examples_min` 1 nothing is counted and every key is admitted. Threads: one.
class RowAdmission {
 public:
  RowAdmission(std::uint32_t examples_min, const model::ModelConfig& config);

  /// Before the batch's rows are made.
  void count(const model::Model& model, std::span<const DecodedExample* const> batch);
  [[nodiscard]] bool admits(std::size_t table, model::Key key) const;

  void append_to(std::string& bytes) const { sketch_.append_to(bytes); }
  [[nodiscard]] base::Result<void> restore(std::string_view& bytes) {
    return sketch_.restore(bytes);
  }

 private:
  void count(const model::Model& model, const model::Slate& slate);
  void add_item(const model::Slate& slate, const model::ItemRef& item);
  void add_surface(model::Key surface);

  std::uint32_t examples_min_;
  CountSketch sketch_;
  std::vector<std::vector<model::Key>> seen_;  // a table; of one example
};

}  // namespace sirenfeed::trainer
