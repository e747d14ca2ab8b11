#pragma once
// The workload of throughput_bench and of bench/torch_peer: two sizes of the model with every row
// in its tables, batches of slates and one long slate, all drawn from fixed seeds.
#include <cstddef>
#include <string>
#include <vector>

#include "model/model.h"
#include "trainer/decoded_example.h"

namespace sirenfeed::bench {

struct ModelSize {
  const char* name = "default";
  int d_model = 32;
  int heads = 2;
  int layers = 1;
};
inline constexpr ModelSize kDefaultSize{};
inline constexpr ModelSize kLargeSize{"large", 64, 4, 2};

inline constexpr std::size_t kCandidates = 10;         // of a slate that is learned
inline constexpr std::size_t kScoredCandidates = 500;  // of the slate that is scored
inline constexpr std::size_t kBatches = 8;
// Steps after which the two trainers are compared once more: every batch twice.
inline constexpr std::size_t kCheckedSteps = 2 * kBatches;

/// Weights moved away from their starts, so that every part of the model has its say.
[[nodiscard]] model::Model make_case_model(const ModelSize& size, model::Variant variant);

/// Slates of `candidates` with `tokens` of history, and their labels.
[[nodiscard]] std::vector<trainer::DecodedExample> make_case_examples(std::size_t count,
                                                                      std::size_t tokens,
                                                                      std::size_t candidates);

/// The examples as JSON, ids as numbers (as int64, like the model file's keys).
[[nodiscard]] std::string examples_json(const std::vector<trainer::DecodedExample>& examples);

}  // namespace sirenfeed::bench
