// rebuild: the state of a stopped node anew from its log.
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <memory>

#include "app/command_line.h"
#include "app/progress_line.h"
#include "app/rebuild.h"
#include "ingest/event_time.h"

namespace sirenfeed::app {
namespace {

/// Unix milliseconds, a date or ISO-8601.
base::Result<base::UnixMs> parse_time(const std::string& text) {
  base::UnixMs time = 0;
  const char* end = text.data() + text.size();
  if (!text.empty() && std::from_chars(text.data(), end, time).ptr == end) return time;
  if (const auto date = ingest::parse_iso_date(text)) return *date;
  if (const auto iso = ingest::parse_iso8601(text)) return *iso;
  return base::fail(base::ErrorCode::kInvalidArgument,
                    "--from: expected a time such as 2022-04-24T15:00Z, 2022-04-24 or Unix "
                    "milliseconds, got '{}'",
                    text);
}

base::Result<void> run_rebuild(const Settings& settings, const std::string& from) {
  RebuildOptions options;
  if (!from.empty()) {
    SF_ASSIGN(options.from, parse_time(from));
  }
  ProgressLine line("rebuilding");
  SF_ASSIGN(const RebuildReport report,
            rebuild_state(settings, options, [&](std::uint64_t records, std::uint64_t total) {
              const auto all = static_cast<double>(std::max<std::uint64_t>(total, 1));
              line.update(static_cast<double>(records) / all, records, "records");
            }));
  line.finish();
  fmt::print(
      "rebuilt {} from {} records: applied {}, rejected {}, duplicate {}; {} erasures and "
      "takedowns\n",
      settings.state_dir(), report.counts.in, report.counts.applied, report.counts.rejected,
      report.counts.duplicate, report.tombstones);
  for (const std::string& line_of : report.missing) fmt::print("missing: {}\n", line_of);
  fmt::print("{}\n", report.missing.empty()
                         ? "nothing is missing: the log was complete"
                         : "everything younger than what is missing is as it was");
  return {};
}

}  // namespace

void add_rebuild_command(CommandLine& line) {
  auto from = std::make_shared<std::string>();
  CLI::App& command = add_command(
      line, "rebuild",
      "Make the state of a stopped node anew from its log; nothing is learned twice",
      "  sirenfeed rebuild --data data\n"
      "  sirenfeed rebuild --data data --brokers 127.0.0.1:9092 --from 2022-04-24T00:00Z");
  command.add_option("--from", *from,
                     "Leave out impressions and clicks before this time (ISO-8601 or Unix ms)");
  command.callback(
      [&line, from] { line.action = [&line, from] { return run_rebuild(line.settings, *from); }; });
}

}  // namespace sirenfeed::app
