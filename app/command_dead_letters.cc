#include <cstdio>
#include <functional>
#include <memory>

#include "app/command_line.h"
#include "app/open_log.h"
#include "ingest/dead_letter.h"

namespace sirenfeed::app {
namespace {

using base::ErrorCode;
using base::fail;

struct DeadLetterOptions {
  std::string reason;
  bool dry_run = false;
};

constexpr std::chrono::milliseconds kPollTimeout{1000};
constexpr std::chrono::milliseconds kFlushTimeout{60'000};

/// Every record of [from, next) of one partition, in order.
base::Result<void> read_partition(
    ingest::LogReader& reader, ingest::TopicPartition source, ingest::Offset from,
    ingest::Offset next, const std::function<base::Result<void>(const ingest::LogRecord&)>& each) {
  if (from >= next) return {};
  SF_TRY(reader.assign(source, from));
  while (from < next) {
    SF_ASSIGN(const ingest::PollBatch batch, reader.poll(kPollTimeout));
    if (batch.broker_lost) return fail(ErrorCode::kUnavailable, "no broker answers");
    for (const ingest::LogRecord& record : batch.records) {
      if (record.offset < next) SF_TRY(each(record));
      from = record.offset + 1;
    }
    if (batch.records.empty() && !batch.at_end.empty()) break;
  }
  return reader.unassign(source);
}

base::Result<void> for_each_letter(
    ingest::EventLog& log, const std::string& reason,
    const std::function<base::Result<void>(const ingest::DeadLetter&)>& each) {
  SF_ASSIGN(const auto reader, log.open_reader({.name = "sirenfeed-dead-letters"}));
  SF_ASSIGN(const ingest::Partition partitions, log.partitions(ingest::Topic::kDeadLetters));
  for (ingest::Partition partition = 0; partition < partitions; ++partition) {
    const ingest::TopicPartition source{ingest::Topic::kDeadLetters, partition};
    SF_ASSIGN(const ingest::EventLog::Bounds bounds, log.bounds(source));
    SF_TRY(read_partition(*reader, source, bounds.first, bounds.next,
                          [&](const ingest::LogRecord& record) -> base::Result<void> {
                            SF_ASSIGN(const ingest::DeadLetter letter,
                                      ingest::parse_dead_letter(record.value.value_or("")));
                            if (!reason.empty() &&
                                reject_reason_name(letter.rejection.reason) != reason) {
                              return {};
                            }
                            return each(letter);
                          }));
  }
  return {};
}

base::Result<void> list_letters(const Settings& settings, const DeadLetterOptions& options) {
  SF_ASSIGN(const DataUse use, DataUse::share_log(settings));
  SF_ASSIGN(const auto log, open_log(settings, use));
  return for_each_letter(*log, options.reason,
                         [](const ingest::DeadLetter& letter) -> base::Result<void> {
                           fmt::print("{}\n", ingest::dead_letter_json(letter));
                           return {};
                         });
}

/// The original, read again where it is still retained.
base::Result<ingest::LogRecord> read_original(ingest::EventLog& log, ingest::LogReader& reader,
                                              const ingest::DeadLetter& letter) {
  SF_ASSIGN(const ingest::EventLog::Bounds bounds, log.bounds(letter.source));
  std::optional<ingest::LogRecord> original;
  if (letter.offset >= bounds.first && letter.offset < bounds.next) {
    SF_TRY(read_partition(reader, letter.source, letter.offset, letter.offset + 1,
                          [&](const ingest::LogRecord& record) -> base::Result<void> {
                            original = record;
                            return {};
                          }));
  }
  if (!original || original->offset != letter.offset) {
    return fail(ErrorCode::kNotFound, "{}/{}/{}: no longer retained",
                topic_name(letter.source.topic), letter.source.partition, letter.offset);
  }
  return *original;
}

base::Result<void> republish_letters(const Settings& settings, const DeadLetterOptions& options) {
  SF_ASSIGN(const DataUse use, DataUse::share_log(settings));
  SF_ASSIGN(const auto log, open_log(settings, use));
  SF_ASSIGN(const auto reader, log->open_reader({.name = "sirenfeed-republish"}));
  SF_ASSIGN(const auto writer, log->open_writer("sirenfeed-republish"));
  std::uint64_t sent = 0, lost = 0;
  SF_TRY(for_each_letter(
      *log, options.reason, [&](const ingest::DeadLetter& letter) -> base::Result<void> {
        auto original = read_original(*log, *reader, letter);
        if (!original) {
          fmt::print(stderr, "{}\n", original.error().message);
          ++lost;
          return {};
        }
        ++sent;
        if (options.dry_run) return {};
        SF_ASSIGN(const ingest::Partition partitions, log->partitions(letter.source.topic));
        const ingest::Partition partition = original->key
                                                ? ingest::partition_of(*original->key, partitions)
                                                : letter.source.partition;
        return writer->append({letter.source.topic, partition}, original->key, original->value,
                              original->log_time_ms, {});
      }));
  SF_TRY(writer->flush(kFlushTimeout));
  fmt::print("{} {}, {} no longer retained\n", sent,
             options.dry_run ? "would be republished" : "republished", lost);
  return {};
}

}  // namespace

void add_dead_letters_command(CommandLine& line) {
  auto options = std::make_shared<DeadLetterOptions>();
  CLI::App& command = add_command(
      line, "dead-letters", "Rejected records: list them, publish their originals again",
      "  sirenfeed dead-letters list --brokers 127.0.0.1:9092 --reason wrong_partition\n"
      "  sirenfeed dead-letters republish --brokers 127.0.0.1:9092 --reason wrong_partition");
  command.require_subcommand(1);
  CLI::App* list = command.add_subcommand("list", "One JSON object a line");
  list->callback([&line, options] {
    line.action = [&line, options] { return list_letters(line.settings, *options); };
  });
  CLI::App* republish =
      command.add_subcommand("republish", "Append the originals to their topics again");
  republish->add_flag("--dry-run", options->dry_run, "Only count them");
  republish->callback([&line, options] {
    line.action = [&line, options] { return republish_letters(line.settings, *options); };
  });
  for (CLI::App* each : {list, republish}) {
    each->add_option("--reason", options->reason, "Only those with this reason");
    each->fallthrough();
  }
}

}  // namespace sirenfeed::app
