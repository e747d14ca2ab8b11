#pragma once
// What was shown in a prequential pass and what became of it: the same for every run of the pass.
#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "trainer/decoded_example.h"

namespace sirenfeed::trainer {

/// One exposure and candidate. Task k is bit k, as at most 32 tasks are configured.
struct ExposureRow {
  base::UnixMs time_ms = 0;
  std::string user_id;
  std::string item_id;
  ExampleIdentity identity;
  std::uint32_t label_bits = 0;
  std::uint32_t known_bits = 0;  // a task whose cell was not to be learned is not reported

  [[nodiscard]] bool known(std::size_t task) const { return (known_bits >> task & 1U) != 0; }
  [[nodiscard]] bool label(std::size_t task) const { return (label_bits >> task & 1U) != 0; }
};

/// Collects the rows in the order of the exposures and puts the labels of closed examples to them.
/// Threads: one.
class ExposureRows {
 public:
  explicit ExposureRows(std::size_t tasks) : tasks_(tasks) {}

  void on_exposure(const DecodedExample& example);
  /// Late corrections change no row: what was predicted is measured against the window's labels.
  /// Those of fake negatives do: their labels come in no other way.
  void on_closed(const DecodedExample& example);
  /// Whether the row's window has closed.
  [[nodiscard]] static bool closed(const ExposureRow& row) { return row.known_bits != 0; }
  [[nodiscard]] std::vector<ExposureRow> take();

 private:
  struct ImpressionKey {
    ingest::Partition partition = 0;
    ingest::Offset offset = 0;
    friend bool operator==(const ImpressionKey&, const ImpressionKey&) = default;
  };
  struct ImpressionHash {
    std::size_t operator()(const ImpressionKey& key) const noexcept {
      return std::hash<std::uint64_t>{}(static_cast<std::uint64_t>(key.offset) * 1'000'003U +
                                        static_cast<std::uint64_t>(key.partition));
    }
  };

  const std::size_t tasks_;
  std::vector<ExposureRow> rows_;
  std::unordered_map<ImpressionKey, std::vector<std::size_t>, ImpressionHash> open_;  // its rows
};

}  // namespace sirenfeed::trainer
