// Any bytes as a recorded input, in every format: the reader refuses it with file and line, or
// hands out events in merge order that the parser takes or rejects; reading it again gives the
// same.
#include <fcntl.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/check.h"
#include "base/clock.h"
#include "base/hash.h"
#include "ingest/event_parser.h"
#include "ingest/replay_reader.h"

using namespace sirenfeed;
using namespace sirenfeed::ingest;

namespace {

/// A file of this process that every input is written to; its name chooses nothing.
std::string write_file(const char* name, std::string_view bytes) {
  static const std::string folder = [] {
    std::string pattern = "/tmp/sirenfeed-fuzz-XXXXXX";
    SF_CHECK(mkdtemp(pattern.data()) != nullptr);
    static std::string made;
    made = pattern;
    std::atexit([] {
      for (const char* file : {"in.csv", "in.inter", "items.csv"}) {
        unlink((made + "/" + file).c_str());
      }
      rmdir(made.c_str());
    });
    return pattern;
  }();
  const std::string path = folder + "/" + name;
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  SF_CHECK(file >= 0);
  SF_CHECK(write(file, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
  SF_CHECK(close(file) == 0);
  return path;
}

void check_record(EventParser& parser, const ReplayRecord& record) {
  LogRecord entry;
  entry.source.topic = record.topic;
  entry.log_time_ms = record.time_ms;
  entry.key = record.key;
  entry.value = record.value;
  const InputRecord parsed = parser.parse(std::move(entry), 1);
  if (const auto* rejection = std::get_if<Rejection>(&parsed.content)) {
    // What a reader writes is an event; only its ids and texts may be over a limit.
    SF_CHECK(rejection->reason != RejectReason::kNotJson &&
             rejection->reason != RejectReason::kMissingField &&
             rejection->reason != RejectReason::kWrongPartition);
  }
}

std::uint64_t read_all(const std::string& path, ReplayFormat format, const ReplayOptions& options) {
  static const base::EventClock clock;
  ParserConfig config;
  config.check_future = false;
  EventParser parser(config, clock);
  const auto reader = open_replay(path, format, options);
  if (!reader) return base::xxh3_64(reader.error().message);
  std::pair<base::UnixMs, Topic> last{0, Topic::kItems};
  std::uint64_t hash = 0;
  while (true) {
    const auto record = (*reader)->next();
    if (!record) {
      SF_CHECK(!record.error().message.empty());
      const auto after = (*reader)->next();
      SF_CHECK(after.has_value() && !after->has_value());
      return hash ^ base::xxh3_64(record.error().message);
    }
    if (!*record) return hash;
    const std::pair key((*record)->time_ms, (*record)->topic);
    SF_CHECK(last <= key || !options.order_required);
    last = key;
    check_record(parser, **record);
    hash = hash * 31 + base::xxh3_64((*record)->key + (*record)->value.value_or(""));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  constexpr ReplayFormat kFormats[] = {ReplayFormat::kEvents,    ReplayFormat::kKuairand,
                                       ReplayFormat::kMind,      ReplayFormat::kMovielens,
                                       ReplayFormat::kMovielens, ReplayFormat::kCsv,
                                       ReplayFormat::kJsonl};
  const std::size_t choice = data[0] % std::size(kFormats);
  std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  ReplayOptions options;
  options.items_file = "none";
  options.order_required = data[0] < 128;
  options.map.columns = {{"user", "u"},      {"item", "i"},       {"time", "t"},
                         {"click", "c"},     {"surface", "s"},    {"position", "p"},
                         {"author", "a"},    {"tags", "/m/tags"}, {"published", "b"},
                         {"impression", "g"}};
  if (kFormats[choice] == ReplayFormat::kCsv) options.map.columns["tags"] = "x";
  options.items_map.columns = {{"item", "i"}, {"tags", "x"}, {"title", "n"}};
  // Bytes 0x00 0x00 part the events from the file of items.
  const std::size_t cut = bytes.find(std::string_view("\0\0", 2));
  if (cut != std::string_view::npos) {
    options.items_file = write_file("items.csv", bytes.substr(cut + 2));
    bytes = bytes.substr(0, cut);
  }
  const std::string path = write_file(choice == 4 ? "in.inter" : "in.csv", bytes);
  const std::uint64_t hash = read_all(path, kFormats[choice], options);
  options.sort_bytes_max = 64;  // through temporary files
  SF_CHECK(read_all(path, kFormats[choice], options) == hash);
  return 0;
}
