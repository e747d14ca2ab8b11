#include "ingest/replay_reader.h"

#include <utility>

#include "ingest/replay_formats.h"

namespace sirenfeed::ingest {

std::string_view replay_format_name(ReplayFormat format) noexcept {
  switch (format) {
    case ReplayFormat::kKuairand:
      return "kuairand";
    case ReplayFormat::kEvents:
      return "events";
  }
  return "unknown";
}

std::optional<ReplayFormat> replay_format_from_name(std::string_view name) noexcept {
  for (const ReplayFormat format : {ReplayFormat::kKuairand, ReplayFormat::kEvents}) {
    if (replay_format_name(format) == name) return format;
  }
  return std::nullopt;
}

base::Result<std::unique_ptr<ReplayReader>> open_replay(const std::string& path,
                                                        ReplayFormat format,
                                                        const ReplayOptions& options) {
  SF_TRY(options.parser.validate());
  SF_ASSIGN(ReplayInput input, ReplayInput::open(path, options.stdin_name));
  switch (format) {
    case ReplayFormat::kKuairand:
      return open_kuairand(std::move(input));
    case ReplayFormat::kEvents:
      return open_events(std::move(input), options);
  }
  return base::fail(base::ErrorCode::kInvalidArgument, "{}: unknown format", path);
}

}  // namespace sirenfeed::ingest
