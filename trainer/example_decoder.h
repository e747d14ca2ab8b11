#pragma once
// Example (protobuf, features/example_format) → Slate and labels.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/config.h"
#include "trainer/decoded_example.h"

namespace sirenfeed::features {
class Example;
}

namespace sirenfeed::trainer {

/// The newest version of example.proto's message that this trainer knows.
inline constexpr std::uint32_t kExampleVersion = 2;

/// The names whose order gives an example's columns their meaning.
struct ExampleSchema {
  std::vector<std::string> context_names;  // of a whole row, the towers' features included
  std::vector<std::string> actions;
  std::vector<std::string> tasks;
};
/// Of the examples that a model of this configuration learns.
[[nodiscard]] ExampleSchema schema_of(const model::ModelConfig& config);

/// Threads: const after construction.
class ExampleDecoder {
 public:
  explicit ExampleDecoder(const ExampleSchema& schema);

  /// kDecode: the bytes or fields are no example (no protobuf, columns of unequal length, a
  /// non-finite feature): a dead letter. kInvalidArgument: a good example that this trainer must
  /// not guess at (a newer version, other features, actions or tasks): the trainer stops; the
  /// message says what differs. Of an erased example nothing but identity and order is filled.
  [[nodiscard]] base::Result<DecodedExample> decode_bytes(std::string_view bytes) const;
  [[nodiscard]] base::Result<DecodedExample> decode(const features::Example& example) const;

 private:
  std::uint64_t context_schema_ = 0;
  std::uint64_t action_schema_ = 0;
  std::uint64_t task_schema_ = 0;
  std::size_t contexts_ = 0;
  std::size_t tasks_ = 0;
};

}  // namespace sirenfeed::trainer
