#pragma once
// manifest.json of one model version (docs/FORMATS.md, Model store).
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace sirenfeed::model {

/// One file of a version.
struct StoredFile {
  std::uint64_t bytes = 0;
  std::uint64_t xxh3 = 0;
  friend bool operator==(const StoredFile&, const StoredFile&) = default;
};

/// delta.safetensors, which leads from version `base` to this one.
struct StoredDelta {
  std::uint64_t base = 0;
  std::uint64_t base_identity = 0;  // Manifest::identity of that version
  StoredFile file;
};

/// When examples came to the trainer, by its wall clock.
struct Arrivals {
  std::int64_t first_ms = 0;  // of those that the version before has not learned; 0: there are none
  std::int64_t last_ms = 0;
};

struct Manifest {
  std::uint64_t version = 0;
  std::int64_t created_ms = 0;  // by the publisher's clock
  std::string variant;
  std::optional<StoredFile> full;     // model.safetensors; a version has it, a delta, or both
  std::optional<StoredDelta> delta;   // delta.safetensors
  std::vector<double> canary_logits;  // of canary_slates(), to be met within 1e-3
  Arrivals arrivals;
  std::string metrics_json = "{}";  // free form JSON; {} in place of what is not JSON

  /// What a delta that builds on this version names: the check-sum of what was published first.
  /// A full file that is added to a delta later does not change it.
  [[nodiscard]] std::uint64_t identity() const {
    return delta ? delta->file.xxh3 : full ? full->xxh3 : 0;
  }
  /// Of all its files.
  [[nodiscard]] std::uint64_t bytes() const {
    return (full ? full->bytes : 0) + (delta ? delta->file.bytes : 0);
  }
};

[[nodiscard]] std::string manifest_to_json(const Manifest& manifest);
/// kCorrupt with `path` in front.
[[nodiscard]] base::Result<Manifest> manifest_from_json(const std::string& path,
                                                        std::string_view text);

}  // namespace sirenfeed::model
