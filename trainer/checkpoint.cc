#include "trainer/checkpoint.h"

#include <cstring>

#include "base/hash.h"
#include "model/file_io.h"
#include "trainer/byte_io.h"

namespace sirenfeed::trainer {

namespace {

using base::ErrorCode;
using base::fail;

constexpr std::string_view kMagic{"SFTRAIN\0", 8};
constexpr std::uint32_t kVersion = 4;

// T_ref moves while the model learns; everything else must be what the checkpoint was made with.
std::uint64_t configuration_hash(const OnlineTrainer& trainer) {
  model::ModelConfig config = trainer.model().config;
  config.time_reference_ms = 0;
  return base::xxh3_64(model::config_to_json(config, 0) + '\n' + trainer.config().canonical());
}

constexpr const char* kRestore = ": put a copy back (`sirenfeed restore` of a backup)";

base::Result<std::string_view> checked_body(std::string_view bytes, std::uint64_t configuration) {
  std::uint64_t sum = 0;
  if (bytes.size() < kMagic.size() + sizeof sum || !bytes.starts_with(kMagic)) {
    return fail(ErrorCode::kCorrupt, "no trainer checkpoint{}", kRestore);
  }
  std::memcpy(&sum, bytes.data() + bytes.size() - sizeof sum, sizeof sum);
  bytes.remove_suffix(sizeof sum);
  if (base::xxh3_64(bytes) != sum) {
    return fail(ErrorCode::kCorrupt, "check-sum does not match: cut short or damaged{}", kRestore);
  }
  bytes.remove_prefix(kMagic.size());
  std::uint32_t version = 0;
  std::uint64_t stored_configuration = 0;
  std::uint64_t length = 0;
  SF_TRY(take(bytes, version, "header"));
  if (version != kVersion) {
    return fail(ErrorCode::kCorrupt,
                "format version {}, this trainer reads {}: use the sirenfeed that wrote it",
                version, kVersion);
  }
  SF_TRY(take(bytes, stored_configuration, "header"));
  SF_TRY(take(bytes, length, "header"));
  if (length != bytes.size()) {
    return fail(ErrorCode::kCorrupt, "body of {} bytes, {} promised{}", bytes.size(), length,
                kRestore);
  }
  if (stored_configuration != configuration) {
    return fail(ErrorCode::kCorrupt,
                "made with another model or training configuration ({:016x}, now {:016x}): restore "
                "that configuration",
                stored_configuration, configuration);
  }
  return bytes;
}

base::Result<Positions> take_positions(std::string_view& body) {
  std::uint32_t count = 0;
  SF_TRY(take(body, count, "positions"));
  Positions positions;
  for (std::uint32_t i = 0; i < count; ++i) {
    ingest::Partition partition = 0;
    PartitionPosition position;
    SF_TRY(take(body, partition, "positions"));
    SF_TRY(take(body, position.next_offset, "positions"));
    SF_TRY(take(body, position.epoch, "positions"));
    SF_TRY(take(body, position.sequence, "positions"));
    positions[partition] = position;
  }
  return positions;
}

}  // namespace

Checkpoint take_checkpoint(const OnlineTrainer& trainer, const Learned& learned) {
  return {configuration_hash(trainer), learned, trainer.state()};
}

base::Result<void> write_checkpoint(const std::string& file, const Checkpoint& checkpoint) {
  std::string bytes(kMagic);
  put(bytes, kVersion);
  put(bytes, checkpoint.configuration);
  const std::size_t length_at = bytes.size();
  put(bytes, std::uint64_t{0});
  const std::size_t body_at = bytes.size();
  const Learned& learned = checkpoint.learned;
  put(bytes, learned.recorded_until_ms);
  put(bytes, static_cast<std::uint32_t>(learned.positions.size()));
  for (const auto& [partition, position] : learned.positions) {
    put(bytes, partition);
    put(bytes, position.next_offset);
    put(bytes, position.epoch);
    put(bytes, position.sequence);
  }
  checkpoint.state.append_to(bytes);
  const std::uint64_t body_bytes = bytes.size() - body_at;
  std::memcpy(bytes.data() + length_at, &body_bytes, sizeof body_bytes);
  put(bytes, base::xxh3_64(bytes));

  return model::replace_file(file, bytes);
}

base::Result<std::optional<Learned>> read_checkpoint(const std::string& file,
                                                     OnlineTrainer& trainer) {
  const auto bytes = model::read_file(file);
  if (!bytes && bytes.error().code == ErrorCode::kNotFound) return std::nullopt;
  if (!bytes) return fail(bytes.error());
  const auto restored = [&]() -> base::Result<Learned> {
    SF_ASSIGN(std::string_view body, checked_body(*bytes, configuration_hash(trainer)));
    Learned learned;
    SF_TRY(take(body, learned.recorded_until_ms, "recorded log"));
    SF_ASSIGN(learned.positions, take_positions(body));
    SF_TRY(trainer.restore(body));
    return learned;
  }();
  if (!restored) {
    return fail(
        restored.error().code,
        "{}: {}. Or move the file away: the trainer then begins a new model and learns every "
        "example that topic examples still holds, from the oldest on",
        file, restored.error().message);
  }
  return *restored;
}

}  // namespace sirenfeed::trainer
