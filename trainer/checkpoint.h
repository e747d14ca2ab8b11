#pragma once
// The trainer's one durable file: model, optimiser and offsets together, so that each example is
// learned exactly once across a crash. docs/FORMATS.md has the grammar:
//   magic "SFTRAIN\0" · u32 version · u64 configuration hash · u64 body length · body · u64 xxh3_64
// of all before it. Integers and floats are little-endian.
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "ingest/topic.h"
#include "trainer/online_trainer.h"

namespace sirenfeed::trainer {

/// How far a partition of topic examples was learned.
struct PartitionPosition {
  ingest::Offset next_offset = 0;
  std::uint64_t epoch = 0;     // of the last learned example
  std::uint64_t sequence = 0;  // of the last learned example
  friend bool operator==(const PartitionPosition&, const PartitionPosition&) = default;
};
using Positions = std::map<ingest::Partition, PartitionPosition>;

/// Where learning stands.
struct Learned {
  Positions positions;
  /// The newest exposure of a recorded log that was learned before the topic (warm_start.h): in a
  /// partition without a position, examples up to it count as learned. kNothingRecorded: none was.
  base::UnixMs recorded_until_ms = kNothingRecorded;
  static constexpr base::UnixMs kNothingRecorded = INT64_MIN;
  friend bool operator==(const Learned&, const Learned&) = default;
};

/// What a checkpoint holds, as it was at one batch boundary: positions and state belong together.
/// Cheap to take; may be written by another thread while the trainer learns on.
struct Checkpoint {
  std::uint64_t configuration = 0;
  Learned learned;
  TrainerState state;
};
[[nodiscard]] Checkpoint take_checkpoint(const OnlineTrainer& trainer, const Learned& learned);

/// Replaces `file` atomically (temporary file, fsync, rename, fsync of the folder).
[[nodiscard]] base::Result<void> write_checkpoint(const std::string& file,
                                                  const Checkpoint& checkpoint);

/// Restores `trainer` and returns where it stood; nullopt where there is no file. kCorrupt names
/// what does not fit (truncation, check-sum, another version, another model or step configuration)
/// and says what to do about it.
[[nodiscard]] base::Result<std::optional<Learned>> read_checkpoint(const std::string& file,
                                                                   OnlineTrainer& trainer);

}  // namespace sirenfeed::trainer
