#include "trainer/dead_letter_sender.h"

#include <utility>

#include "base/hash.h"
#include "ingest/dead_letter.h"

namespace sirenfeed::trainer {

namespace {
constexpr std::chrono::milliseconds kFlushTimeout{10'000};
}

void DeadLetterSender::add(const ingest::LogRecord& record, std::string detail) {
  const std::string payload = record.value.value_or("");
  ingest::DeadLetter letter{.source = record.source,
                            .offset = record.offset,
                            .log_time_ms = record.log_time_ms,
                            .rejection = {ingest::RejectReason::kUndecodable, std::move(detail)},
                            .hash = base::xxh3_64(payload),
                            .payload_bytes = payload.size(),
                            .payload = payload.substr(0, ingest::kDeadLetterPayloadMax)};
  unsent_.push_back({.source = record.source.partition,
                     .key = fmt::format("{}/{}/{}", ingest::topic_name(record.source.topic),
                                        record.source.partition, record.offset),
                     .json = ingest::dead_letter_json(letter),
                     .time_ms = record.log_time_ms});
}

base::Result<void> DeadLetterSender::append_all() {
  SF_ASSIGN(const ingest::Partition partitions, log_.partitions(ingest::Topic::kDeadLetters));
  if (!writer_) {
    SF_ASSIGN(writer_, log_.open_writer("trainer-dead-letters"));
  }
  for (const Letter& letter : unsent_) {
    SF_TRY(writer_->append({ingest::Topic::kDeadLetters, letter.source % partitions}, letter.key,
                           letter.json, letter.time_ms, {}));
  }
  return writer_->flush(kFlushTimeout);
}

base::Result<void> DeadLetterSender::send() {
  if (unsent_.empty()) return {};
  auto sent = append_all();
  if (!sent) {
    writer_.reset();  // a writer that failed once is dead
    return sent;
  }
  unsent_.clear();
  return {};
}

}  // namespace sirenfeed::trainer
